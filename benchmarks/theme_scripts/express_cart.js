// Render product pages of express-cart's themes, as its app.js and routes/index.js do:
// a task {theme, currency, menu, pages: [{product, images, file}]} on standard input.
const fs = require("fs");
const path = require("path");

const root = path.join(process.cwd(), "node_modules", "express-cart", "views");
const Handlebars = require(path.join(process.cwd(), "node_modules", "handlebars"));
const task = JSON.parse(fs.readFileSync(0, "utf8"));
const same = { "==": (a, b) => a == b, "!=": (a, b) => a != b, ">": (a, b) => a > b };

Handlebars.registerHelper({
  getTheme: (view) => `themes/${task.theme}/${view}`,
  currencySymbol: (value) => value || "$",
  formatAmount: (amount) => Number(amount || 0).toFixed(2),
  menuMatch: () => "",
  isNull(value, options) {
    return value === undefined || value === "" ? options.fn(this) : options.inverse(this);
  },
  ifCond(left, operator, right, options) {
    return same[operator](left, right) ? options.fn(this) : options.inverse(this);
  },
});
for (const view of ["front-menu", "cart"]) {
  const name = `themes/${task.theme}/${view}`;
  Handlebars.registerPartial(name, fs.readFileSync(path.join(root, `${name}.hbs`), "utf8"));
}
const read = (name) => Handlebars.compile(fs.readFileSync(path.join(root, `${name}.hbs`), "utf8"));
const [layout, product] = [read("layouts/layout"), read(`themes/${task.theme}/product`)];
const config = { theme: task.theme, currencySymbol: task.currency, cartTitle: task.title, baseUrl: "", env: ".min" };
for (const page of task.pages) {
  const context = {
    title: page.product.productTitle,
    result: page.product,
    productDescription: page.product.productDescription,
    metaDescription: `${task.title} - ${page.product.productTitle}`,
    productOptions: page.options,
    images: page.images,
    menu: { items: task.menu },
    showFooter: "showFooter",
    session: {},
    config,
  };
  fs.writeFileSync(page.file, layout({ ...context, body: product(context) }));
}
