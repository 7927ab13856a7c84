// Keeps the page up to date. The server renders: each message has the new content of the main element, which the server has escaped.
(() => {
  "use strict";
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const said = document.getElementById("said");
  const address = new URL(document.body.dataset.events, location.origin); // without a password in the page's address
  const retryAfter = 10000; // milliseconds
  const longestSilence = 40000; // milliseconds; the server sends a heartbeat each 15 seconds

  const show = (state, text) => {
    live.hidden = false;
    live.className = "live " + state;
    live.textContent = text;
  };

  // replace shows the new content, and keeps the focus and the scroll positions.
  const replace = (html) => {
    const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = [...main.querySelectorAll(".scroll")].map((e) => [e.id, e.scrollLeft]);
    const content = new DOMParser().parseFromString(html, "text/html").body;
    main.replaceChildren(...content.childNodes);
    for (const [id, left] of scrolled) {
      const element = document.getElementById(id);
      if (element) element.scrollLeft = left;
    }
    if (focused) (document.getElementById(focused) || main).focus({ preventScroll: true });
  };

  let shown = "";
  const receive = (event) => {
    const message = JSON.parse(event.data);
    if (message.problem) {
      show("bad", "Not up to date: " + message.problem);
      return;
    }
    show("good", "Live");
    if (message.html !== shown) replace(message.html);
    shown = message.html;
    document.title = message.title + " - Drydock";
    if (said.dataset.last !== undefined && said.dataset.last !== message.said) said.textContent = message.said;
    said.dataset.last = message.said;
  };

  let source = null;
  let watch = 0; // the timer that ends a silent connection
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(reconnect, longestSilence);
  };
  const lost = () => show("bad", "Not up to date: the connection is lost. Trying again");
  const connect = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    source = new EventSource(address);
    source.onmessage = receive;
    for (const kind of ["open", "message", "heartbeat"]) source.addEventListener(kind, heard);
    source.onerror = (event) => {
      lost();
      if (event.target.readyState === EventSource.CLOSED) setTimeout(connect, retryAfter);
    };
    heard();
  };
  // A network can fail without closing a connection, for example while a laptop sleeps.
  const reconnect = () => {
    source.close();
    lost();
    connect();
  };

  // A hidden page holds no connection, so that the server reads nothing for it.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) {
      clearTimeout(watch);
      source.close();
      show("bad", "Not up to date: the tab was hidden. Connecting");
    }
    connect();
  });
  connect();
})();
