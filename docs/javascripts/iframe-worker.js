// Search on a page that was opened from the disk. Browsers start no Worker from file://,
// so there the search runs in a hidden frame that behaves like one. On http:// nothing is changed.
(function () {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.frame = frame
      const inside = frame.contentWindow
      this.loaded = new Promise((resolve, reject) => {
        inside.document.open()
        inside.document.write("<html><body></body></html>")
        inside.document.close()
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
        inside.importScripts = (...urls) => Promise.all(urls.map((one) => add(inside, one)))
        add(inside, url).then(resolve, reject)
      })
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow
        inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      })
    }

    terminate() {
      this.frame.remove()
    }
  }

  function add(inside, url) {
    return new Promise((resolve, reject) => {
      const script = inside.document.createElement("script")
      script.src = String(url)
      script.onload = resolve
      script.onerror = reject
      inside.document.body.appendChild(script)
    })
  }

  if (location.protocol === "file:") {
    window.IFrameWorker = IFrameWorker
    window.Worker = IFrameWorker
  }
})()
