// While a job runs, its figures are read again, without its pages; when it has ended, the whole page is.
const live = document.querySelector("[data-live]");
if (live) setInterval(async () => {
  const answer = await fetch(`${location.pathname}?after=${Number.MAX_SAFE_INTEGER}`);
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
  if (now) live.replaceChildren(...now.childNodes);
  else location.reload();
}, 2000);
