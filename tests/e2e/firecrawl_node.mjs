// Runs Firecrawl's own client for Node against a server: node firecrawl_node.mjs API_URL TOKEN SITE_URL
// The package `firecrawl` is found as require() finds it (NODE_PATH). Prints what came, as JSON.
import { createRequire } from "node:module";

const { Firecrawl } = createRequire(import.meta.url)("firecrawl");
const [apiUrl, apiKey, site] = process.argv.slice(2);
const client = new Firecrawl({ apiUrl, apiKey });
const refused = (asked) => asked.then(() => null, ({ name, status, code, message }) => ({ name, status, code, message }));

const schema = { type: "object", properties: { name: { type: "string" } } };
const formats = ["markdown", "html", "rawHtml", "links", { type: "json", schema }];
const page = await client.scrape(`${site}/about/`, { formats });
const map = await client.map(site, { search: "product" });
const crawl = await client.crawl(site, { limit: 40, maxDiscoveryDepth: 3, pollInterval: 1 });
const first = await client.getCrawlStatus(crawl.id, { autoPaginate: false });
const batch = await client.batchScrape([`${site}/`, `${site}/about/`, `${site}/nope/`], { pollInterval: 1 });
const started = await client.startCrawl(site, { limit: 40 });
const active = await client.getActiveCrawls();
const isCancelled = await client.cancelCrawl(started.id);
const cancelled = await client.getCrawlStatus(started.id);
const watcher = client.watcher(crawl.id, { kind: "crawl", pollInterval: 1 });
const watched = await new Promise((resolve) => {
  watcher.on("done", resolve);
  watcher.start();
});

console.log(
  JSON.stringify({
    page,
    map: map.links,
    crawl: { ...crawl, data: crawl.data.map((one) => one.metadata.sourceURL) },
    first: { next: first.next, documents: first.data.length },
    batch: { ...batch, data: batch.data.map((one) => one.metadata.statusCode) },
    active: active.crawls.map((one) => one.id === started.id),
    isCancelled,
    cancelled: cancelled.status,
    watched: watched.status,
    errors: await client.getCrawlErrors(crawl.id),
    refused: [
      await refused(client.scrape(site, { formats: ["summary"] })),
      await refused(client.scrape(`${site}/private/x`)),
      await refused(client.crawl(site, { allowExternalLinks: true })),
      await refused(client.getCrawlStatus("none")),
      await refused(client.cancelCrawl(crawl.id)),
      await refused(client.search("tea")),
    ],
  }),
);
process.exit(0); // the client leaves timers behind
