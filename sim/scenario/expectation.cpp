#include "sim/scenario/expectation.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "sim/audit/audit.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

constexpr int kFailureKinds = static_cast<int>(FailureKind::kInternal) + 1;
constexpr std::string_view kCompletes = "completes";
constexpr std::string_view kRangeForm = "for example '0.6.0 - 0.15.2', '>= 0.15.3', 0.15.2, or all";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::optional<FailureKind> parse_kind(std::string_view text) {
  for (int i = 0; i < kFailureKinds; ++i) {
    const auto kind = static_cast<FailureKind>(i);
    if (text == name(kind) || text == code(kind)) return kind;
  }
  return std::nullopt;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kFailureKinds; ++i) names.emplace_back(name(static_cast<FailureKind>(i)));
  return names;
}

class ExpectationReader {
 public:
  ExpectationReader(const YamlFile& file, const YamlNode& node, int ranks)
      : file_(file), node_(node), ranks_(ranks) {}

  Expectation read() {
    static constexpr auto kKeys =
        std::to_array<std::string_view>({"deepspeed", "outcome", "failure", "prints", "silent", "params",
                                         "status", "text", "at", "step", "rank"});
    file_.check_keys(file_.map(node_, "an expectation", "for example {deepspeed: all, outcome: completes}"),
                     kKeys, "an expectation");
    const YamlNode* releases = node_.find("deepspeed");
    if (releases == nullptr)
      file_.fail(node_.place, "an expectation needs deepspeed", std::string(kRangeForm));
    Expectation expected{ReleaseRange::parse(file_, *releases), node_.place, read_kind()};
    if (const YamlNode* prints = node_.find("prints")) expected.prints = read_prints(*prints);
    if (const YamlNode* silent = node_.find("silent")) expected.silent = read_silent(*silent);
    if (!expected.failure) return expected;
    if (const YamlNode* params = node_.find("params")) {
      for (const YamlNode& param : file_.list(*params, "params", "for example [fc2.weight]").items) {
        expected.params.push_back(file_.text(param, "a parameter's name"));
      }
    }
    if (const YamlNode* status = node_.find("status")) {
      expected.status = parse_status(file_.text(*status, "status"));
      if (!expected.status) {
        file_.fail(status->place, fmt::format("unknown status '{}'", status->scalar),
                   "AVAILABLE, INFLIGHT or NOT_AVAILABLE");
      }
    }
    if (const YamlNode* text = node_.find("text")) expected.text = file_.text(*text, "text");
    if (const YamlNode* at = node_.find("at")) expected.at = file_.text(*at, "at");
    if (const YamlNode* step = node_.find("step")) expected.step = file_.count(*step, "step");
    if (const YamlNode* rank = node_.find("rank")) {
      expected.rank = file_.count(*rank, "rank");
      if (*expected.rank >= ranks_) {
        file_.fail(rank->place, fmt::format("rank {} of {} rank(s)", *expected.rank, ranks_),
                   "ranks count from 0; 'ranks:' at the top says how many there are");
      }
    }
    return expected;
  }

 private:
  std::vector<std::string> read_prints(const YamlNode& node) const {
    std::vector<std::string> lines;
    for (const YamlNode& line : file_.list(node, "prints", "the lines in their order; [] for none").items)
      lines.push_back(file_.text(line, "a printed line"));
    return lines;
  }

  std::vector<std::string> read_silent(const YamlNode& node) const {
    const std::vector<std::string> known = silent_fault_names();
    std::vector<std::string> kinds;
    for (const YamlNode& item :
         file_.list(node, "silent", "kinds of silent faults, for example [stale-weights]; [] for none")
             .items) {
      const std::string& kind = file_.text(item, "a kind of silent fault");
      if (std::ranges::find(known, kind) == known.end())
        file_.fail(item.place, fmt::format("unknown silent fault '{}'", kind), suggestion(kind, known));
      kinds.push_back(kind);
    }
    std::ranges::sort(kinds);
    return kinds;
  }

  // None: completes.
  std::optional<FailureKind> read_kind() const {
    const YamlNode* outcome = node_.find("outcome");
    const YamlNode* failure = node_.find("failure");
    if ((outcome == nullptr) == (failure == nullptr)) {
      file_.fail(node_.place, "an expectation is either an outcome or a failure",
                 "write outcome: completes, or failure: inflight-at-reset");
    }
    if (outcome != nullptr) {
      if (file_.text(*outcome, "outcome") != kCompletes) {
        file_.fail(outcome->place, fmt::format("unknown outcome '{}'", outcome->scalar),
                   "the one there is: completes");
      }
      for (const YamlKey& key : node_.keys) {
        if (key.text != "deepspeed" && key.text != "outcome" && key.text != "prints" &&
            key.text != "silent") {
          file_.fail(key.place,
                     fmt::format("'{}' says something of a failure, and none is expected", key.text));
        }
      }
      return std::nullopt;
    }
    const std::optional<FailureKind> kind = parse_kind(file_.text(*failure, "failure"));
    if (kind) return kind;
    file_.fail(failure->place, fmt::format("unknown failure '{}'", failure->scalar),
               suggestion(failure->scalar, kind_names()));
  }

  const YamlFile& file_;
  const YamlNode& node_;
  int ranks_;
};

}  // namespace

ReleaseRange ReleaseRange::parse(const YamlFile& file, const YamlNode& node) {
  ReleaseRange range;
  range.text_ = file.text(node, "deepspeed", std::string(kRangeForm));
  range.releases_ =
      parse_releases(range.text_, [&](size_t offset, const std::string& message, const std::string& advice) {
        file.fail(file.place_in(node, offset), message, advice);
      });
  return range;
}

bool ReleaseRange::contains(const Release& release) const {
  return std::ranges::binary_search(releases_, release);
}

std::string difference(const Expectation& expected, const Ending& ending) {
  const auto say = [](std::optional<FailureKind> kind) {
    return std::string(kind ? name(*kind) : kCompletes);
  };
  if (expected.failure != ending.failure) {
    return fmt::format("expected {}, got {}", say(expected.failure), say(ending.failure));
  }
  if (expected.prints && ending.printed && *expected.prints != *ending.printed) {
    return fmt::format("expected it to print {}, got {}", joined(*expected.prints), joined(*ending.printed));
  }
  if (expected.silent && ending.silent && *expected.silent != *ending.silent) {
    return fmt::format("expected the silent faults {}, got {}", joined(*expected.silent),
                       joined(*ending.silent));
  }
  if (!expected.failure) return "";
  std::vector<std::string> params;
  for (const Ending::NamedParam& param : ending.params) params.push_back(param.name);
  if (!expected.params.empty() && expected.params != params) {
    return fmt::format("expected the params {}, got {}", joined(expected.params), joined(params));
  }
  for (const Ending::NamedParam& param : ending.params) {
    if (!expected.status || !param.status || *param.status == *expected.status) continue;
    return fmt::format("expected {} to be {}, got {}", param.name, status_text(*expected.status),
                       status_text(*param.status));
  }
  if (ending.text.find(expected.text) == std::string::npos)
    return fmt::format("expected the text '{}'", expected.text);
  if (!ending.statement_text.starts_with(expected.at)) {
    return fmt::format("expected it at '{}', got '{}'", expected.at, ending.statement_text);
  }
  const auto step = static_cast<int64_t>(ending.statement) + 1;
  if (expected.step && *expected.step != step)
    return fmt::format("expected it at step {}, got {}", *expected.step, step);
  if (expected.rank && *expected.rank != ending.rank) {
    return fmt::format("expected it on rank {}, got {}", *expected.rank, ending.rank);
  }
  return "";
}

std::vector<Expectation> read_expectations(const YamlFile& file, const YamlNode& node, int ranks) {
  std::vector<Expectation> all;
  for (const YamlNode& item :
       file.list(node, "expect", "for example [{deepspeed: all, outcome: completes}]").items) {
    Expectation expected = ExpectationReader(file, item, ranks).read();
    for (const Expectation& other : all) {
      for (const Release& release : known_releases()) {
        if (!expected.releases.contains(release) || !other.releases.contains(release)) continue;
        file.fail(expected.place, fmt::format("a second expectation for {}", release.text()),
                  fmt::format("the first is in line {}", other.place.line));
      }
    }
    all.push_back(std::move(expected));
  }
  return all;
}

std::optional<ZeroParamStatus> parse_status(std::string_view text) {
  for (const ZeroParamStatus status :
       {ZeroParamStatus::kAvailable, ZeroParamStatus::kNotAvailable, ZeroParamStatus::kInflight}) {
    if (text == status_text(status)) return status;
  }
  return std::nullopt;
}

}  // namespace zero3::sim
