const __vite__mapDeps=(i,m=__vite__mapDeps,d=(m.f||(m.f=["assets/start-71FuxV70.js","assets/base-CFXdmTZB.js","assets/first-Bor1ADjn.js","assets/base-H27oU1hi.css","assets/start-DKzJfC2w.css"])))=>i.map(i=>d[i]);
import{c as o,h as s,i as t,l as i,_}from"./first-Bor1ADjn.js";const{path:r,query:a,anchor:e}=o();s(t(r,a,e));i(r,a);_(()=>import("./start-71FuxV70.js"),__vite__mapDeps([0,1,2,3,4]));
