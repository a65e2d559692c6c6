// Browsers refuse workers to pages that were opened from a disk. There an invisible frame does a worker's work, so that
// the search of this site needs no server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = []
    #frame = document.createElement("iframe")

    constructor(address) {
      super()
      this.#frame.hidden = true
      document.body.append(this.#frame)
      const inside = this.#frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...addresses) => Promise.all(addresses.map(one => this.#load(one)))
      this.#load(address).then(() => {
        const early = this.#waiting
        this.#waiting = null
        early.forEach(data => this.postMessage(data))
      })
    }

    #load(address) {
      return new Promise((done, failed) => {
        const script = this.#frame.contentDocument.createElement("script")
        script.src = new URL(address, location.href)
        script.onload = done
        script.onerror = failed
        this.#frame.contentDocument.body.append(script)
      })
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data)
      else this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.#frame.remove()
    }
  }
}
