// The parts of Apache ECharts that a report uses: half the size of the whole library. echarts.min.js is made of it, in a
// folder of its own, by
//     npm install echarts@6.1.0 esbuild@0.28.2
//     npx esbuild echarts.entry.js --bundle --minify --charset=utf8 --legal-comments=none --format=iife \
//         --global-name=echarts --outfile=echarts.min.js \
//         --banner:js="/*! Apache ECharts 6.1.0, Copyright 2017-2026 The Apache Software Foundation, Apache License 2.0
//     (www.apache.org/licenses/LICENSE-2.0); with ZRender 6.1.0 (Baidu Inc., BSD-3-Clause), tslib 2.3.0 (Microsoft, 0BSD). */"
// with the banner on one line. The licences stand in echarts.LICENSE.txt.
export { init } from "echarts/core";
import { use } from "echarts/core";
import { BarChart, LineChart, TreemapChart } from "echarts/charts";
import { AxisPointerComponent, GridComponent, LegendPlainComponent, TitleComponent, TooltipComponent } from "echarts/components";
import { LabelLayout } from "echarts/features";
import { SVGRenderer } from "echarts/renderers";
use([
  BarChart, LineChart, TreemapChart, AxisPointerComponent, GridComponent, LegendPlainComponent, TitleComponent,
  TooltipComponent, LabelLayout, SVGRenderer,
]);
