#include <poll.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/cli/flags.h"
#include "engine/launch/status_server.h"
#include "engine/report/report.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

constexpr launch::StatusServer::Purpose kPurpose{"the report", "host", "--port"};

std::string page_of(const std::vector<std::string>& folders, bool is_live) {
  std::vector<report::RunFolder> runs;
  runs.reserve(folders.size());
  for (const std::string& folder : folders) runs.push_back(report::read_run(folder));
  return report::report_page(runs, is_live);
}

/// Each request gets a new page.
launch::HttpResponse answer(const std::string& path, const std::vector<std::string>& folders) {
  if (path != "/") return {.status = 404, .body = "only / is served\n"};
  try {
    return {.status = 200, .body = page_of(folders, true), .type = "text/html; charset=utf-8"};
  } catch (const Error& error) {  // the folder was removed meanwhile
    return {.status = 503, .body = std::string(error.what()) + "\n"};
  }
}

/// Until the process is interrupted.
[[noreturn]] void serve(const std::vector<std::string>& folders, int port) {
  launch::StatusServer server(
      launch::resolve("127.0.0.1", port), [&](const std::string& path) { return answer(path, folders); },
      std::chrono::seconds(30), kPurpose);
  fmt::print("http://127.0.0.1:{}/ shows the report as it is now; end with Ctrl-C\n", port);
  std::fflush(stdout);
  while (true) {
    pollfd ready{server.fd(), POLLIN, 0};
    poll(&ready, 1, -1);
    server.serve();
  }
}

}  // namespace

int run_report(const Arguments& arguments) {
  CLI::App app(
      "Make a page (HTML, complete in one file) of a run's curves, figures, configuration and predictions. Of several "
      "runs, the page draws the curves together and shows the options that differ. `trainer launch` makes the page of "
      "its run when it ends.",
      "report");
  app.footer(
      "Examples:\n  trainer report runs/t5                    writes runs/t5/report.html\n"
      "  trainer report runs/a runs/b -o ab.html   compares two runs\n"
      "  trainer report runs/t5 --serve            shows a run while it trains\n");
  std::vector<std::string> folders;
  std::string output;
  bool serves = false, json = false;
  int port = 6006;
  app.add_option("RUN", folders, "output folders of runs")->required();
  app.add_option("-o,--output", output, "the file to write; default: RUN/report.html, or report.html for several runs");
  app.add_flag("--serve", serves,
               "serve the page on this machine's loopback address instead; it follows a run that trains");
  app.add_option("--port", port, "the port to serve it on")->check(CLI::Range(1, 65535));
  app.add_flag("--json", json, "print one JSON object to standard output, for scripts");
  if (!parse(app, arguments)) return 0;
  if (serves && json) throw ConfigError("--json is for a page that is written, but --serve writes none.");
  const std::string page = page_of(folders, false);
  if (serves) serve(folders, port);
  const fs::path file = !output.empty()       ? fs::path(output)
                        : folders.size() == 1 ? fs::path(folders[0]) / "report.html"
                                              : fs::path("report.html");
  publish_file(file, page);
  if (json)
    fmt::print("{}\n", nlohmann::ordered_json{{"output", file.string()}, {"runs", folders}}.dump(
                           1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else
    fmt::print("wrote {}\n", file.string());
  return kDone;
}

}  // namespace trainer::cli
