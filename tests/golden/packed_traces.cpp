#include "tests/golden/packed_traces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zero3::golden {
namespace {

using nlohmann::json;

PackedTrace unpack(const std::filesystem::path& path, const json& lines, const json& statements,
                   const json& row) {
  PackedTrace trace{.file = path.filename(), .program = path.stem(), .ranks = row.at("ranks")};
  for (const json& source : row.at("releases")) trace.releases.push_back(source.at("deepspeed"));
  trace.text =
      json{{"format", "zero3sim-trace"},          {"version", 1},         {"scenario", trace.program},
           {"deepspeed", trace.releases.front()}, {"ranks", trace.ranks}, {"seed", 0},
           {"source", row.at("releases").front()}}
          .dump() +
      "\n";
  const json& by_rank = row.at("by_rank");
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const json& own = by_rank[rank].is_number() ? by_rank[by_rank[rank].get<size_t>()] : by_rank[rank];
    for (size_t statement = 0; statement < own.size(); ++statement) {
      for (const json& line : statements.at(own[statement].get<size_t>())) {
        trace.text += fmt::format(R"({{"rank":{},"statement":{},{})", rank, statement,
                                  lines.at(line.get<size_t>()).get<std::string>().substr(1)) +
                      "\n";
      }
    }
  }
  trace.text += "{\"event\":\"end\"}\n";
  return trace;
}

}  // namespace

std::vector<PackedTrace> read_packed(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<PackedTrace> traces;
  for (const auto& path : paths) {
    std::ifstream file(path);
    json lines;
    json statements;
    file >> lines >> statements;
    for (json row; file >> std::ws && !file.eof();) {
      file >> row;
      traces.push_back(unpack(path, lines.at("lines"), statements.at("statements"), row));
    }
  }
  return traces;
}

}  // namespace zero3::golden
