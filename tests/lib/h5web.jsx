// A page with H5Web, for `test_clients.py`: ?url=… is h5grove's, &file=… the path of a file.

import { createRoot } from "react-dom/client";
import { App, H5GroveProvider } from "@h5web/app";
import "@h5web/app/styles.css";

const query = new URLSearchParams(location.search);
createRoot(document.getElementById("root")).render(
  <H5GroveProvider url={query.get("url")} filepath={query.get("file")}>
    <App propagateErrors />
  </H5GroveProvider>,
);
