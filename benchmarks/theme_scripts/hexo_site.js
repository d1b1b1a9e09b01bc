// Build a Hexo site in the folder that is given, whose parent has node_modules.
const path = require("path");
const Hexo = require(path.join(process.cwd(), "node_modules", "hexo"));

(async () => {
  const hexo = new Hexo(process.cwd(), { silent: true });
  await hexo.init();
  await hexo.load();
  await hexo.call("generate", { concurrency: 4 });
  await hexo.exit();
})();
