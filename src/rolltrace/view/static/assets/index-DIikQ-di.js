const __vite__mapDeps=(i,m=__vite__mapDeps,d=(m.f||(m.f=["assets/start-kPCXb_rQ.js","assets/base-BmG6ZRwO.js","assets/first-S_hSrRgX.js","assets/base-H27oU1hi.css","assets/start-DKzJfC2w.css"])))=>i.map(i=>d[i]);
import{c as o,g as s,i as t,l as i,_}from"./first-S_hSrRgX.js";const{path:r,query:a,anchor:e}=o();s(t(r,a,e));i(r,a);_(()=>import("./start-kPCXb_rQ.js"),__vite__mapDeps([0,1,2,3,4]));
