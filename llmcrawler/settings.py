"""Settings of the project, each with its default and what it means. Scrapy's own settings keep their meaning."""

from importlib.util import find_spec

BOT_NAME = "llmcrawler"
SPIDER_MODULES = ["llmcrawler.spiders"]
NEWSPIDER_MODULE = "llmcrawler.spiders"
COMMANDS_MODULE = "llmcrawler.commands"

# -- Politeness: a stranger's site, every night ------------------------------------------------------------------------
USER_AGENT = "llmcrawler/0.1 (+https://github.com/llmcrawler/llmcrawler)"  # put your own url here
ROBOTSTXT_OBEY = True
ROBOTSTXT_PARSER = "llmcrawler.middlewares.robots_txt.GroupRobotParser"  # RFC 9309
# ROBOTSTXT_USER_AGENT: the name whose rules are ours; empty: that in USER_AGENT, up to its "/"
ROBOTS_META_OBEY = True  # keep the rules of X-Robots-Tag and robots meta elements; False: they are recorded only
RIGHTS_POLICY = "record"  # what sites say of rights is written into `rights`; respect: obeyed, for CRAWL_PURPOSE; off
CRAWL_PURPOSE = ""  # what pages are wanted for: search, ai-index, ai-input, ai-train, tdm, monitoring, other
CONCURRENT_REQUESTS = 32  # in flight over all hosts
CONCURRENT_REQUESTS_PER_DOMAIN = 5  # in flight per host and port; it holds (see engine/downloader.py)
DOWNLOAD_DELAY = 0.2  # seconds from start to start on one host, on average
DOWNLOAD_DELAY_JITTER = 0.5  # each gap is DOWNLOAD_DELAY times 1 +- this
AUTOTHROTTLE_ENABLED = True  # adapt to latency and refusals within the limits above; False: use them as they are
AUTOTHROTTLE_START_DELAY = 0.2  # seconds; the first second has three requests at most in any case
AUTOTHROTTLE_MAX_DELAY = 60.0  # the longest gap, robots.txt's Crawl-delay included
# AUTOTHROTTLE_TARGET_CONCURRENCY: where it is set, no more than that in flight per host on average
THROTTLE_PUT_BACKS = 8  # times that a page is queued again for 429 or 503 before it is an error line
THROTTLE_BREAKER_FAILURES = 5  # in a row; then the host has a cooldown, and is probed from time to time
THROTTLE_BREAKER_REST_SECONDS = 5.0  # its first cooldown, which doubles with each probe that fails; robots.txt's too
THROTTLE_BREAKER_PROBES = 3  # failed probes before the host is given up, when nothing else is left to do; likewise
THROTTLE_MAX_REST_SECONDS = 600.0  # a host that asks for a longer pause is given up when nothing else is left to do
COOKIES_ENABLED = True
BOT_AUTH_KEY = ""  # path of the key that signs requests (scrapy keys new); in the environment: path or PEM; "": none
BOT_AUTH_AGENT = ""  # the https url that its directory is published at; it is sent with each request
BOT_AUTH_AGENT_AS_STRING = False  # True: Signature-Agent as drafts before 2026, and Cloudflare's documentation, have it
HTTPCACHE_ENABLED = False

# -- Limits ------------------------------------------------------------------------------------------------------------
DOWNLOAD_TIMEOUT = 30  # seconds for one try
DOWNLOAD_MAXSIZE = 20 * 2**20  # bytes of a body; a larger one is an error line
DOWNLOAD_WARNSIZE = 0
DOWNLOAD_VERIFY_CERTIFICATES = True
RETRY_TIMES = 5  # after the first try: a site that fails three times in ten loses one page in a thousand
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"  # it is a line of the feed
REDIRECT_MAX_TIMES = 10
STOP_SECONDS = 8.0  # after Ctrl-C or SIGTERM, for requests in flight and pages being worked on; then they are cut off
CRAWL_MAX_ERRORS_SHARE = 1.0  # a greater share of pages with errors makes the exit status 6; 1: it never does

# -- Proxies and pages that are none ----------------------------------------------------------------------------------
PROXIES: object = []  # http://user:password@host:port, ...; or by country: {"DE": [...], "*": [...]}, "*" for others
PROXIES_FILE = ""  # the same from a file, one a line (and its country after it), or JSON
PROXY_PROVIDER = "auto"  # list, file, environment, proxyscrape, webshare, iproyal, none; auto: PROXIES and PROXIES_FILE
PROXY_PROXYSCRAPE_KEY = ""  # or in the environment; without one: the free list
PROXY_WEBSHARE_KEY = ""  # or in the environment
PROXY_IPROYAL_KEY = ""  # or in the environment
PROXY_IPROYAL_LOGIN = ""  # username:password of the residential proxies; or in the environment
PROXY_COUNT = 20  # proxies to ask for, of a service that makes up as many as one wants (IPRoyal)
PROXY_API_URL = ""  # where the service's API is, when not at its own address
PROXY_COUNTRY = ""  # two letters, or several with commas; a request's meta["proxy_country"] goes first
PROXY_STICKY = False  # True: a host keeps its proxy while that works; a request's meta["proxy_sticky"] goes first
PROXY_BAN_STATUSES = [403, 407]  # answers that may mean that the proxy is banned
PROXY_BAN_MARKS: list[str] = []  # texts of pages that are a ban, beside the usual captcha pages
PROXY_MAX_SWITCHES = 10  # proxies that a page is asked through before it is believed to be as it is
PROXY_MAX_FAULTS = 3  # faults in a row after which a proxy that has worked is dropped; a new one has one
PROXY_REST_SECONDS = 10.0  # the cooldown after a fault, twice as long after each further one
PROXY_TRIAL_SECONDS = 10.0  # DOWNLOAD_TIMEOUT for a proxy that has not worked yet; 0: no other
PROXY_CHECK_NAMES = True  # look names up here before a proxy does, and refuse private addresses
VALIDATE_RESPONSE = ""  # path of a function that gets a page's response and may raise llmcrawler.errors.NotThePage

# -- Rendering (-a render=auto|never|always) --------------------------------------------------------------------------
PLAYWRIGHT_EXECUTABLE = ""  # the browser; empty: a Chromium or Chrome of the system, else Playwright's own
RENDER_WAIT_SECONDS = 10.0  # the longest wait for what a page's scripts bring; most take less than a second
RENDER_SCROLLS = 0  # steps to the end of a list, or clicks on its "load more", on each rendered page
RENDER_CLICKS = 40  # clicks at most on what may be a link without an address, on each rendered page; 0: none
RENDER_CONTEXT_PAGES = 50  # pages of a browser context before it is closed, with its cache and cookies
# A page that is fetched again by the browser has been redirected and retried before.
META_COPY_WARN_SKIP_KEYS = ["redirect_reasons", "redirect_times", "redirect_ttl", "redirect_urls", "retry_times"]

# -- Components --------------------------------------------------------------------------------------------------------
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None  # None: the loop of asyncio
SCHEDULER = "llmcrawler.engine.scheduler.FrontierScheduler"
DOWNLOADER = "llmcrawler.engine.downloader.PoliteDownloader"
DOWNLOAD_HANDLERS = {
    "http": "llmcrawler.engine.http_downloads.PageDownloadHandler",
    "https": "llmcrawler.engine.http_downloads.PageDownloadHandler",
}
TWISTED_DNS_RESOLVER = "llmcrawler.middlewares.addresses.GuardedResolver"
SPIDER_MIDDLEWARES = {
    "llmcrawler.middlewares.leases.LeaseMiddleware": 10,  # outermost: it sees what really comes out
    "llmcrawler.middlewares.stored.ExchangeMiddleware": 20,
    # Scope and frontier do the work of these, and each costs a layer of generators for every page.
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
}
DOWNLOADER_MIDDLEWARES = {
    "llmcrawler.middlewares.stored.StoredPageMiddleware": 5,  # before all that could refuse or wait
    "llmcrawler.middlewares.stored.ArchivedPageMiddleware": 6,  # likewise; what the job has goes first
    "llmcrawler.middlewares.addresses.AddressMiddleware": 10,
    "llmcrawler.middlewares.backoff.GivenUpMiddleware": 20,
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "llmcrawler.middlewares.robots_txt.RobotsMiddleware": 100,
    "llmcrawler.engine.page_rights.RightsMiddleware": 110,  # robots.txt is known by then
    "llmcrawler.middlewares.backoff.BackoffMiddleware": 560,  # it sees a 429 before RetryMiddleware at 550
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "llmcrawler.middlewares.addresses.CrawlMetaRefreshMiddleware": 580,
    "llmcrawler.middlewares.proxies.ValidationMiddleware": 585,  # it sees bodies unpacked, and no redirects
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    "llmcrawler.middlewares.cookies.CrawlCookiesMiddleware": 700,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "llmcrawler.middlewares.bodies.EncodingMiddleware": 588,  # before all that looks into bodies
    "llmcrawler.middlewares.bodies.CompressionMiddleware": 590,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "llmcrawler.middlewares.addresses.CrawlRedirectMiddleware": 600,
    "llmcrawler.middlewares.stored.ExchangeMiddleware": 940,  # it sees answers as they came, and redirects
    # Behind the HTTP cache: what is kept needs no proxy, and neither bans nor credentials are kept.
    "llmcrawler.middlewares.proxies.ProxyMiddleware": 950,
    "llmcrawler.middlewares.addresses.NameMiddleware": 1000,  # behind all that may choose a proxy
}
ITEM_PIPELINES = {
    "llmcrawler.pipelines.stages.ContentPipeline": 100,
    "llmcrawler.pipelines.stages.ClassifyPipeline": 300,
    "llmcrawler.pipelines.stages.RecordPipeline": 500,
    "llmcrawler.pipelines.stages.OwnStages": 700,
    "llmcrawler.pipelines.stages.FeedPipeline": 900,
}
# Scrapy imports what stands in EXTENSIONS_BASE even when it is off: the telnet console and the remote control, which a
# crawler of strangers' sites does not need, take 0.17 s of every start. AutoThrottle and LogStats have successors here.
EXTENSIONS_BASE = {
    "llmcrawler.extensions.setup.CrawlSetup": -1000,  # builds what all others of ours share
    "scrapy.extensions.corestats.CoreStats": 0,
    "scrapy.extensions.logcount.LogCount": 0,
    "scrapy.extensions.memusage.MemoryUsage": 0,
    "scrapy.extensions.memdebug.MemoryDebugger": 0,
    "scrapy.extensions.closespider.CloseSpider": 0,
    "llmcrawler.extensions.feed_export.Feeds": 0,
    "llmcrawler.extensions.resume.WholeSpiderState": 0,
    "llmcrawler.extensions.orderly_stop.OrderlyStop": 0,
}
EXTENSIONS = {
    "llmcrawler.extensions.distributed_worker.DistributedWorker": -10,  # before the feeds
    "llmcrawler.extensions.resume.ResumeExtension": 0,
    "llmcrawler.extensions.throttle.AdaptiveThrottle": 0,
    "llmcrawler.extensions.start_line.StartLine": 400,
    "llmcrawler.extensions.progress_reports.HistoryExtension": 500,
    "llmcrawler.extensions.progress_reports.ProgressExtension": 500,
    "llmcrawler.extensions.telemetry.MetricsExtension": 600,
    "llmcrawler.extensions.telemetry.TracingExtension": 610,
    "llmcrawler.extensions.setup.ResponsivenessExtension": 630,
}
CONCURRENT_ITEMS = 2  # tasks that Scrapy starts for each response, however few items it gives
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 64 * 2**20  # bytes of bodies whose pages wait for the LLM before downloads pause
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# -- Logs and progress -------------------------------------------------------------------------------------------------
LOG_LEVEL = "INFO"
# LOG_FORMAT: Scrapy's; `json` makes each log line of `scrapy crawl`, `shell` and `parse` a JSON object
LOG_FORMATTER = "llmcrawler.engine.log_setup.ShortLogFormatter"
STATS_DUMP = False  # True: Scrapy's stats stand in the log before the summary
PROGRESS = "auto"  # live (on a terminal), log, off; auto chooses
PROGRESS_LOG_SECONDS = 60.0  # between two progress lines where there is no terminal
METRICS_PORT = 0  # where Prometheus may look while the crawl runs (pip install prometheus-client); 0: nowhere
METRICS_HOST = "127.0.0.1"  # 0.0.0.0: from other machines too; there is no password
METRICS_TEXTFILE = ""  # a .prom file in the folder of the node exporter's textfile collector; %(worker)s with REDIS_URL
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
    "marshal": "llmcrawler.exporters.page_formats.PagesMarshalExporter",
    "parquet": "llmcrawler.exporters.page_formats.ParquetExporter",
    "pickle": "llmcrawler.exporters.page_formats.PagesPickleExporter",
    "records": "llmcrawler.exporters.table_formats.RecordsExporter",
    "rights": "llmcrawler.exporters.table_formats.RightsExporter",
    "warc": "llmcrawler.exporters.warc.WarcExporter",
    "xml": "llmcrawler.exporters.page_formats.PagesXmlExporter",
}
CSV_NEUTRALISE_FORMULAS = True  # an apostrophe before cells that a spreadsheet would take for a formula
CONTENT_IN_FEED = True  # False leaves `text` out of the page lines

# -- Content -----------------------------------------------------------------------------------------------------------
CONTENT_WORKERS = "auto"  # processes that read pages beside the crawl's; auto: one less than cores, when busy; 0: none
CONTENT_INLINE_CHARS = 150_000  # longer pages, and costly ones, are read in another process

# -- Records -----------------------------------------------------------------------------------------------------------
RECORD_PAGE_TYPES = "auto"  # auto: those that are about one thing (product, article, job ...); all; none; or names
RECORD_MIN_PAGES = 5  # a template with fewer pages is not learned
RECORD_LEARN_PAGES = 20  # a template is learned from so many of its pages, or from what there is when no more come
RECORD_SAMPLES = 3  # pages shown to the LLM at first
RECORD_MAX_SAMPLES = 7  # and at most, where its answers or the selectors disagree
RECORD_SAMPLE_TOKENS = 3_000  # of one page that is shown
RECORD_MAX_RELEARNED = 2  # so often a template is learned anew when its pages change
RECORD_SINGLETONS = False  # True: one LLM call for each page of other templates; else they have what they say

# -- Jobs: nothing is lost --------------------------------------------------------------------------------------------
# JOBDIR: a folder; the same command with the same JOBDIR goes on where the crawl was, however it ended
JOBDIR_FORCE = False  # True: go on even with other spider arguments
JOBDIR_SYNC_SECONDS = (
    1.0  # progress that a power cut may take back (kill -9 takes none); 0: none, at a disk's write a page
)
STORE_BODIES = True  # keep what the server sent (compressed) for -a force=STAGE; False: only while it is needed
LEASE_SECONDS = 3600.0  # a url whose worker is not heard of for so long goes back to the queue
MAX_LEASES = 5  # times that a crawl may die while it reads a page (then a dead letter) or runs a stage of yours on it
STAGE_TIMEOUT_SECONDS = 1800.0  # for one page in one stage, waiting for its batch or its template included
PAGE_STAGES: list[str] = []  # paths of your own async functions of a page (llmcrawler.items.Page), run after its record

# -- Many workers, one crawl -------------------------------------------------------------------------------------------
# redis://, rediss:// or unix://: the crawl is kept there and shared by all who name it; no JOBDIR then. What
# Sentinels watch: redis+sentinel://HOST:PORT,.../SERVICE
REDIS_URL = ""
CRAWL_ID = ""  # the name of the crawl in that Redis
REDIS_LEASE_SECONDS = 30.0  # a worker that is not heard of for so long loses its urls to the others

# -- A campaign: many sites (scrapy campaign) -------------------------------------------------------------------------
CAMPAIGN_CRAWLS = 0  # processes that crawl at once; 0: as many as cores and memory bear
CAMPAIGN_BROWSERS = 1  # of these that send all their pages through a browser
CAMPAIGN_BUNDLE_SITES = 0  # sites that one process crawls; 0: as many as is good, 50 at most
CAMPAIGN_RETRIES = 5  # times that a bundle which fails, and comes no further, is tried again before it is given up
CAMPAIGN_RETRY_SECONDS = 2.0  # before the first of these; each further one waits twice as long, a minute at most
CAMPAIGN_SAVE_SECONDS = 30.0  # between two times that a job is saved, in a campaign that is kept elsewhere

# -- Learned templates -------------------------------------------------------------------------------------------------
TEMPLATES_FILE = ""  # keep what was learned across crawls; empty: in a JOBDIR its templates.json, else nowhere

# -- In a project of somebody else's (llmcrawler.addons, docs/parts.md) ------------------------------------------------
UNDERSTANDING_FIELDS = {  # what is found of a page, and the field of an item that it is put into
    "page_type": "page_type",
    "confidence": "confidence",
    "decided_by": "decided_by",
    "template": "template",
    "record": "record",
    "error": "error",  # also title, lang, text (Markdown), content_hash, robots
}
UNDERSTANDING_KEEP_HTML = True  # False takes `html` out of the item behind it
UNDERSTANDING_OPTIONS: dict[str, str] = {}  # page_types, schema or fields, as -a has them for explore

# -- LLM ---------------------------------------------------------------------------------------------------------------
# openai (any server that speaks its API), embedded (a small model, for records only) or none; auto: openai where there
# is a key or a url, else embedded where xllamacpp is installed, else none
LLM_PROVIDER = "auto"
LLM_OPTIONAL = False  # True: crawl on where the model cannot be used; else the crawl stops before its first request
LLM_BASE_URL = ""  # or OPENAI_BASE_URL in the environment
LLM_API_KEY = ""  # or OPENAI_API_KEY in the environment
LLM_MODEL = ""  # empty: a cheap one of OpenAI's, or the first that the server lists
# Asked in their order where the first is out: names of models at the same server, or objects with base_url, model and
# api_key_env, the variable of the environment that holds the key; see docs/models.md
LLM_FALLBACKS: list[str | dict[str, object]] = []
LLM_SERVICE_TIER = ""  # flex: half the price of OpenAI's models, and answers may take minutes; default: the usual one
LLM_CONCURRENCY = 4  # calls in flight
LLM_TIMEOUT_SECONDS = 60.0  # for one try of one call
LLM_MAX_ATTEMPTS = 4  # tries of one call
LLM_BATCH_PAGES = 20  # pages in one call
LLM_BATCH_TOKENS = 12_000  # tokens of pages in one call
LLM_BATCH_WAIT_SECONDS = 2.0  # the longest that a page waits for its batch to fill
LLM_BATCH_PATIENT_SECONDS = 15.0  # the same for a re-check, which rides along with other pages' batches
LLM_REQUESTS_PER_MINUTE = 0  # 0: no limit but LLM_CONCURRENCY
LLM_TOKENS_PER_MINUTE = 0
LLM_MAX_COST_USD = 0.0  # of a crawl, over all runs of its JOBDIR; no call is made that could exceed it; 0: no limit
LLM_MAX_TOKENS = 0  # the same in tokens, of questions and answers together
# A file in which all crawls of this machine that name it count: the four limits above are then those of all together
LLM_BUDGET_FILE = ""
LLM_BUDGET_URL = ""  # redis://HOST/0#NAME, where crawls of many machines count in the same way
LLM_PRICE_INPUT = ""  # US dollars per million tokens, for a model whose price is not known here
LLM_PRICE_OUTPUT = ""
LLM_PRICE_CACHED_INPUT = ""  # of what the provider has in its prompt cache; empty: its list price, or LLM_PRICE_INPUT
LLM_PRICE_CACHE_WRITE = ""  # of what it puts there; empty: as input, and 1.25 times that for OpenAI's from GPT-5.6 on
LLM_CACHE = True  # keep answers across crawls; a path says where
LLM_EMBEDDED_MODEL = ""  # a GGUF file that learns records, in place of the default model
