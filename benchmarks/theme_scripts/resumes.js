// Render CVs: a task {theme, pages: [{resume, file}]} on standard input; run in the folder with node_modules.
const fs = require("fs");
const path = require("path");

(async () => {
  const task = JSON.parse(fs.readFileSync(0, "utf8"));
  const folder = path.join(process.cwd(), "node_modules", task.theme);
  const described = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  const isModule = described.type === "module";
  const theme = isModule ? await import(path.join(folder, "dist", "index.js")) : require(folder);
  for (const page of task.pages) {
    fs.writeFileSync(page.file, await theme.render(page.resume));
  }
})();
