// Search runs in a worker, and a page that was opened from a folder may not start one. There, this stands in for it:
// a hidden frame that loads the same script. The theme looks for `IFrameWorker` to know that.
(() => {
  if (location.protocol !== "file:") return

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.outside = (event) => {
        if (event.source !== this.inside) return
        const passed = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(passed)
        if (this.onmessage) this.onmessage(passed)
      }
      addEventListener("message", this.outside)
      this.frame = frame
      this.loaded = this.load(new URL(url, location).href)
    }

    async load(url) {
      const { inside } = this
      const load = (src) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script")
          script.src = new URL(src, url)
          script.onload = resolve
          script.onerror = () => reject(new Error(`${src} cannot be loaded`))
          inside.document.body.append(script)
        })
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source)
      }
      inside.postMessage = (data) => dispatchEvent(new MessageEvent("message", { data, source: inside }))
      await load(url)
    }

    async postMessage(data) {
      await this.loaded
      this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      removeEventListener("message", this.outside)
      this.frame.remove()
    }
  }

  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
})()
