"""Settings of the project, each with its default and what it means. Scrapy's own settings keep their meaning."""

from importlib.util import find_spec

BOT_NAME = "llmcrawler"
SPIDER_MODULES = ["llmcrawler.spiders"]
NEWSPIDER_MODULE = "llmcrawler.spiders"
COMMANDS_MODULE = "llmcrawler.commands"

# -- Politeness -------------------------------------------------------------------------------------------------------
USER_AGENT = "llmcrawler/0.1 (+https://github.com/llmcrawler/llmcrawler)"  # put your own URL here
ROBOTSTXT_OBEY = True
ROBOTSTXT_PARSER = "llmcrawler.middlewares.robots_txt.GroupRobotParser"  # RFC 9309
# ROBOTSTXT_USER_AGENT: the name to look up in robots.txt; empty: the one in USER_AGENT up to its "/"
ROBOTS_META_OBEY = True  # obey X-Robots-Tag headers and robots meta elements; False: only record them
RIGHTS_POLICY = "record"  # record: write what sites say into `rights`; respect: also obey it for CRAWL_PURPOSE; off
CRAWL_PURPOSE = ""  # what the pages are for: search, ai-index, ai-input, ai-train, tdm, monitoring, other
CONCURRENT_REQUESTS = 32  # in flight over all hosts
CONCURRENT_REQUESTS_PER_DOMAIN = 5  # in flight per host and port, strictly enforced (engine/downloader.py)
DOWNLOAD_DELAY = 0.2  # seconds between requests to one host, on average
DOWNLOAD_DELAY_JITTER = 0.5  # each gap is DOWNLOAD_DELAY times 1 +- this
AUTOTHROTTLE_ENABLED = True  # adapt to latency and refusals within the limits above; False: use the limits unchanged
AUTOTHROTTLE_START_DELAY = 0.2  # seconds; the first second has at most three requests in any case
AUTOTHROTTLE_MAX_DELAY = 60.0  # the longest gap, robots.txt's Crawl-delay included
# AUTOTHROTTLE_TARGET_CONCURRENCY: if set, at most this many in flight per host on average
THROTTLE_PUT_BACKS = 8  # how often a page is requeued after a 429 or 503 before it becomes an error line
THROTTLE_BREAKER_FAILURES = 5  # failures in a row before a host gets a cooldown and is only probed
THROTTLE_BREAKER_REST_SECONDS = 5.0  # the first cooldown, doubled with each failed probe; also for robots.txt
THROTTLE_BREAKER_PROBES = 3  # failed probes before a host is given up, once nothing else is left to do
COOKIES_ENABLED = True
BOT_AUTH_KEY = ""  # path of the key that signs requests (scrapy keys new); as an environment variable: path or PEM
BOT_AUTH_AGENT = ""  # the https URL of its published directory, sent with each request
BOT_AUTH_AGENT_AS_STRING = False  # True: write Signature-Agent as in drafts before 2026 and Cloudflare's documentation
HTTPCACHE_ENABLED = False

# -- Limits ------------------------------------------------------------------------------------------------------------
# Hosts that may be asked, with their subdomains; "*": all but private ones, even as start URLs; empty: all, and private
# ones as start URLs. What a page loads in the browser may come from any public host.
ONLY_HOSTS: list[str] = []
DOWNLOAD_TIMEOUT = 30  # seconds for one attempt
DOWNLOAD_MAXSIZE = 20 * 2**20  # bytes; a larger body becomes an error line
DOWNLOAD_WARNSIZE = 0
DOWNLOAD_VERIFY_CERTIFICATES = True
RETRY_TIMES = 5  # after the first attempt: a site that fails three times in ten loses one page in a thousand
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"  # the feed has a line for it
REDIRECT_MAX_TIMES = 10
STOP_SECONDS = 8.0  # after Ctrl-C or SIGTERM, for requests in flight and pages in progress; then they are cut off
CRAWL_MAX_ERRORS_SHARE = 0.5  # a greater share of pages with errors makes the exit status 6; 1: never

# -- Proxies and response validation ----------------------------------------------------------------------------------
PROXIES: object = []  # http://user:password@host:port, ...; or by country: {"DE": [...], "*": [...]} ("*": others)
PROXIES_FILE = ""  # the same from a file: one per line, with an optional country, or JSON
PROXY_PROVIDER = "auto"  # environment, proxyscrape, webshare, iproyal, none; auto: PROXIES and PROXIES_FILE
PROXY_PROXYSCRAPE_KEY = ""  # or in the environment
PROXY_WEBSHARE_KEY = ""  # or in the environment
PROXY_IPROYAL_KEY = ""  # or in the environment
PROXY_IPROYAL_LOGIN = ""  # username:password of the residential proxies; or in the environment
PROXY_COUNT = 20  # proxies to request from a service that makes as many as you want (IPRoyal)
PROXY_API_URL = ""  # address of the service's API, if not the usual one
PROXY_COUNTRY = ""  # two letters, or several with commas; a request's meta["proxy_country"] takes precedence
PROXY_STICKY = False  # True: a host keeps its proxy while it works; a request's meta["proxy_sticky"] takes precedence
PROXY_BAN_STATUSES = [403, 407]  # statuses that may mean that the proxy is banned
PROXY_REST_SECONDS = 10.0  # the cooldown after a fault, doubled with each further one
PROXY_CHECK_NAMES = True  # resolve names here before a proxy does, and refuse private addresses
VALIDATE_RESPONSE = ""  # path of a function that takes a page's response and may raise llmcrawler.errors.NotThePage

# -- Rendering (-a render=auto|never|always) --------------------------------------------------------------------------
PLAYWRIGHT_EXECUTABLE = ""  # the browser; empty: the system's Chromium or Chrome, otherwise Playwright's own
RENDER_WAIT_SECONDS = 10.0  # the longest wait for a page's scripts; most take less than a second
RENDER_SCROLLS = 0  # scrolls to the end of a list, or clicks on "load more", per rendered page
RENDER_CLICKS = 40  # clicks on possible links without an address, per rendered page; 0: none
# A page that is fetched again by the browser may have been redirected and retried before.
META_COPY_WARN_SKIP_KEYS = ["redirect_reasons", "redirect_times", "redirect_ttl", "redirect_urls", "retry_times"]

# -- Components --------------------------------------------------------------------------------------------------------
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None  # None: asyncio's own loop
DOWNLOADER = "llmcrawler.engine.downloader.PoliteDownloader"
DOWNLOAD_HANDLERS = {
    "http": "llmcrawler.engine.http_downloads.PageDownloadHandler",
    "https": "llmcrawler.engine.http_downloads.PageDownloadHandler",
}
TWISTED_DNS_RESOLVER = "llmcrawler.middlewares.addresses.GuardedResolver"
SPIDER_MIDDLEWARES = {
    "llmcrawler.middlewares.leases.LeaseMiddleware": 10,  # outermost: sees what finally comes out
    "llmcrawler.middlewares.stored.ExchangeMiddleware": 20,
    # Scope and frontier do the work of these; each would cost every page a layer of generators.
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
}
# Scrapy imports all of its own components, even those that are off. Left out are those that ours replace, and the
# telnet console and the remote control: they and Scrapy's cookies would take 0.2 s of every start.
DOWNLOADER_MIDDLEWARES_BASE = {
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": 300,
    "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": 350,
    "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware": 400,
    "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": 500,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": 550,
    "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": 750,
    "scrapy.downloadermiddlewares.stats.DownloaderStats": 850,
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware": 900,
}
DOWNLOADER_MIDDLEWARES = {
    "llmcrawler.middlewares.stored.StoredPageMiddleware": 5,  # before everything that could refuse or wait
    "llmcrawler.middlewares.stored.ArchivedPageMiddleware": 6,  # likewise; the job takes precedence
    "llmcrawler.middlewares.addresses.AddressMiddleware": 10,
    "llmcrawler.middlewares.backoff.GivenUpMiddleware": 20,
    "llmcrawler.middlewares.robots_txt.RobotsMiddleware": 100,
    "llmcrawler.engine.page_rights.RightsMiddleware": 110,  # robots.txt is known by then
    "llmcrawler.middlewares.backoff.BackoffMiddleware": 560,  # sees a 429 before RetryMiddleware at 550
    "llmcrawler.middlewares.addresses.CrawlMetaRefreshMiddleware": 580,
    "llmcrawler.middlewares.proxies.ValidationMiddleware": 585,  # sees unpacked bodies and no redirects
    "llmcrawler.middlewares.cookies.CrawlCookiesMiddleware": 700,
    "llmcrawler.middlewares.bodies.EncodingMiddleware": 588,  # before everything that reads bodies
    "llmcrawler.middlewares.bodies.CompressionMiddleware": 590,
    "llmcrawler.middlewares.addresses.CrawlRedirectMiddleware": 600,
    "llmcrawler.middlewares.stored.ExchangeMiddleware": 940,  # sees responses unchanged, redirects included
    # Behind the HTTP cache: cached responses need no proxy, and neither bans nor credentials are cached.
    "llmcrawler.middlewares.proxies.ProxyMiddleware": 950,
    "llmcrawler.middlewares.addresses.NameMiddleware": 1000,  # behind everything that may choose a proxy
}
ITEM_PIPELINES = {
    "llmcrawler.pipelines.stages.ContentPipeline": 100,
    "llmcrawler.pipelines.stages.ClassifyPipeline": 300,
    "llmcrawler.pipelines.stages.RecordPipeline": 500,
    "llmcrawler.pipelines.stages.OwnStages": 700,
    "llmcrawler.pipelines.stages.FeedPipeline": 900,
}
EXTENSIONS_BASE = {
    "llmcrawler.extensions.setup.CrawlSetup": -1000,  # builds what our other components share
    "scrapy.extensions.corestats.CoreStats": 0,
    "scrapy.extensions.logcount.LogCount": 0,
    "scrapy.extensions.memusage.MemoryUsage": 0,
    "scrapy.extensions.memdebug.MemoryDebugger": 0,
    "scrapy.extensions.closespider.CloseSpider": 0,
    "llmcrawler.extensions.feed_export.Feeds": 0,
    "scrapy.extensions.spiderstate.SpiderState": 0,
    "llmcrawler.extensions.orderly_stop.OrderlyStop": 0,
}
EXTENSIONS = {
    "llmcrawler.extensions.distributed_worker.DistributedWorker": -10,  # before the feeds
    "llmcrawler.extensions.resume.ResumeExtension": 0,
    "llmcrawler.extensions.throttle.AdaptiveThrottle": 0,
    "llmcrawler.extensions.start_line.StartLine": 400,
    "llmcrawler.extensions.progress_reports.ProgressExtension": 500,
    "llmcrawler.extensions.telemetry.MetricsExtension": 600,
    "llmcrawler.extensions.telemetry.TracingExtension": 610,
    "llmcrawler.extensions.setup.ResponsivenessExtension": 630,
}
CONCURRENT_ITEMS = 2  # tasks that Scrapy starts for each response, however few items it yields
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 64 * 2**20  # bytes of bodies whose pages wait for the LLM before downloads pause
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# -- Logs and progress -------------------------------------------------------------------------------------------------
LOG_LEVEL = "INFO"
# LOG_FORMAT: Scrapy's own, or `json` to make each log line of `scrapy crawl`, `shell` and `parse` a JSON object
LOG_FORMATTER = "llmcrawler.engine.log_setup.ShortLogFormatter"
STATS_DUMP = False  # True: log Scrapy's stats before the summary
PROGRESS = "auto"  # live (on a terminal), log, off; auto: live on a terminal, else log
PROGRESS_LOG_SECONDS = 60.0  # between two progress lines without a terminal
METRICS_PORT = 0  # port for Prometheus while the crawl runs (pip install prometheus-client); 0: none
METRICS_HOST = "127.0.0.1"  # 0.0.0.0: reachable from other machines too, without a password
METRICS_TEXTFILE = ""  # a .prom file for the node exporter's textfile collector; %(worker)s with REDIS_URL
TRACES = ""  # OpenTelemetry: otlp, console, or the path of a span exporter's class (pip install opentelemetry-sdk)

# -- Feed --------------------------------------------------------------------------------------------------------------
FEED_EXPORT_ENCODING = "utf-8"
FEED_STORAGES = {
    "": "llmcrawler.exporters.files.JobFileStorage",
    "file": "llmcrawler.exporters.files.JobFileStorage",
}
FEED_EXPORTERS = {
    "csv": "llmcrawler.exporters.page_formats.PagesCsvExporter",
    "documents": "llmcrawler.exporters.page_formats.DocumentsExporter",
    "jl": "llmcrawler.exporters.page_formats.PagesJsonLinesExporter",
    "jsonl": "llmcrawler.exporters.page_formats.PagesJsonLinesExporter",
    "jsonlines": "llmcrawler.exporters.page_formats.PagesJsonLinesExporter",
    "markdown": "llmcrawler.exporters.page_formats.MarkdownExporter",
    "marshal": None,
    "parquet": "llmcrawler.exporters.page_formats.ParquetExporter",
    "pickle": None,
    "records": "llmcrawler.exporters.table_formats.RecordsExporter",
    "rights": "llmcrawler.exporters.table_formats.RightsExporter",
    "warc": "llmcrawler.exporters.warc.WarcExporter",
    "xml": "llmcrawler.exporters.page_formats.PagesXmlExporter",
}
CSV_NEUTRALISE_FORMULAS = True  # put an apostrophe before cells that a spreadsheet would evaluate as a formula
CONTENT_IN_FEED = True  # False leaves `text` out of the page lines

# -- Content -----------------------------------------------------------------------------------------------------------
CONTENT_WORKERS = "auto"  # extra processes that read pages; auto: up to one less than the cores, when busy; 0: none

# -- Records -----------------------------------------------------------------------------------------------------------
RECORD_PAGE_TYPES = "auto"  # auto: types that are about one thing (product, article, job ...); all; none; or names
RECORD_MIN_PAGES = 2  # a template with fewer pages is not learned
RECORD_SAMPLES = 3  # pages shown to the LLM at first
RECORD_MAX_SAMPLES = 7  # shown at most, if answers or selectors disagree
RECORD_SINGLETONS = False  # True: one LLM call for each page without a learned template; False: its structured data

# -- Jobs: nothing is lost --------------------------------------------------------------------------------------------
# JOBDIR: a folder; run the same command with it again to resume the crawl, however it ended
JOBDIR_FORCE = False  # True: resume even with other spider arguments
STORE_BODIES = True  # keep response bodies (compressed) for -a force=STAGE; False: only while they are needed
MAX_LEASES = 5  # crashes while a page is read, or in a stage of yours, before the page is given up
STAGE_TIMEOUT_SECONDS = 1800.0  # for one page in one stage, including the wait for its batch or template
PAGE_STAGES: list[
    str
] = []  # paths of your own async functions that take a page (llmcrawler.items.Page), run after its record

# -- Many workers, one crawl -------------------------------------------------------------------------------------------
# redis://, rediss:// or unix://, or redis+sentinel://HOST:PORT,.../SERVICE for the master that Sentinels watch: the
# crawl is stored there and shared by all workers that name it, instead of in a JOBDIR
REDIS_URL = ""
CRAWL_ID = ""  # the name of the crawl in that Redis
REDIS_LEASE_SECONDS = 30.0  # a worker that is silent for this long loses its URLs to the others

# -- A campaign: many sites (scrapy campaign) -------------------------------------------------------------------------
CAMPAIGN_CRAWLS = 0  # concurrent crawl processes; 0: as many as cores and memory allow
CAMPAIGN_BROWSERS = 1  # of these, how many may send all their pages through a browser
CAMPAIGN_BUNDLE_SITES = 0  # sites per process; 0: chosen automatically, at most 50
CAMPAIGN_RETRIES = 5  # retries of a bundle that fails without progress before it is given up
CAMPAIGN_RETRY_SECONDS = 2.0  # before the first retry; doubled with each further one, at most a minute
CAMPAIGN_SAVE_SECONDS = 30.0  # between two saves of a job, in a campaign kept in a bucket

# -- Learned templates -------------------------------------------------------------------------------------------------
TEMPLATES_FILE = ""  # keeps what was learned for later crawls; empty: templates.json in a JOBDIR, otherwise nowhere

# -- As add-ons of another project (llmcrawler.addons, docs/parts.md) --------------------------------------------------
UNDERSTANDING_FIELDS = {  # result, and the field of your items for it
    "page_type": "page_type",
    "confidence": "confidence",
    "decided_by": "decided_by",
    "template": "template",
    "record": "record",
    "error": "error",  # also title, lang, text (Markdown), content_hash, robots
}
UNDERSTANDING_KEEP_HTML = True  # False: remove `html` from the item afterwards
UNDERSTANDING_OPTIONS: dict[str, str] = {}  # page_types, schema or fields, as arguments of explore

# -- LLM ---------------------------------------------------------------------------------------------------------------
# openai (any server that speaks its API) or none; auto: openai with a key or a URL, otherwise none
LLM_PROVIDER = "auto"
LLM_OPTIONAL = False  # True: crawl on if the model cannot be used; False: end before the first line
LLM_BASE_URL = ""  # or OPENAI_BASE_URL in the environment
LLM_API_KEY = ""  # or OPENAI_API_KEY in the environment
LLM_MODEL = ""  # empty: a cheap OpenAI model, or the first that the server lists
# Used in this order while the first model is unavailable: names of models at the same server, or objects with base_url,
# model and api_key_env, the environment variable that holds the key; see docs/models.md
LLM_FALLBACKS: list[str | dict[str, object]] = []
LLM_SERVICE_TIER = ""  # flex: OpenAI's models at half the price, with answers that may take minutes
LLM_CONCURRENCY = 4  # calls in flight
LLM_TIMEOUT_SECONDS = 60.0  # for one attempt of a call
LLM_BATCH_PAGES = 20  # pages in one call
LLM_BATCH_WAIT_SECONDS = 5.0  # the longest wait of a page for its batch to fill: each call has 1,000 tokens of its own
LLM_REQUESTS_PER_MINUTE = 0  # 0: unlimited
LLM_TOKENS_PER_MINUTE = 0
LLM_MAX_COST_USD = 0.0  # budget of a crawl, over all runs of its JOBDIR; no call may exceed it; 0: unlimited
LLM_MAX_TOKENS = 0  # the same in tokens, prompts and answers together
# A file shared by all crawls on this machine that name it: the four limits above then apply to all of them together
LLM_BUDGET_FILE = ""
LLM_BUDGET_URL = ""  # redis://HOST/0#NAME: the same for crawls on many machines
LLM_PRICE_INPUT = ""  # US dollars per million tokens, for a model whose price is not built in
LLM_PRICE_OUTPUT = ""
LLM_CACHE = True  # cache answers across crawls; a path chooses where
