#include "sim/regress/baseline.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/outcome/outcome_json.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr const char* kVersionKey = "zero3sim_baseline";

ordered_json program_json(const BaselineProgram& program) {
  ordered_json out = {{"name", program.name},
                      {"file", program.file},
                      {"ranks", program.ranks},
                      {"seed", program.seed},
                      {"outcomes", ordered_json::array()}};
  for (size_t i = 0; i < program.outcomes.size();) {
    std::vector<Release> same;
    const Outcome& outcome = program.outcomes[i].outcome;
    for (; i < program.outcomes.size() && program.outcomes[i].outcome == outcome; ++i)
      same.push_back(program.outcomes[i].release);
    out["outcomes"].push_back({{"deepspeed", fold(same)}, {"outcome", outcome_json(outcome)}});
  }
  return out;
}

ordered_json accepted_json(const AcceptedChange& accepted) {
  return {
      {"program", accepted.program},  {"ranks", accepted.ranks},      {"deepspeed", fold(accepted.releases)},
      {"what", accepted.change.what}, {"from", accepted.change.from}, {"to", accepted.change.to},
      {"note", accepted.note}};
}

// Reads members, with the way to each for what is wrong with it.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  [[noreturn]] void fail(const std::string& where, const std::string& message,
                         const std::string& advice = "docs/regress.md tells the format") const {
    throw BadInput(fmt::format("{}: {}{}{}", path_, where, where.empty() ? "" : ": ", message), advice);
  }

  template <class Value>
  Value member(const ordered_json& json, const char* key, const std::string& where) const {
    try {
      return json.at(key).get<Value>();
    } catch (const nlohmann::json::exception&) {
      fail(where, fmt::format("{} is missing or of another type", key));
    }
  }

  void check_keys(const ordered_json& json, const std::vector<std::string_view>& known,
                  const std::string& where) const {
    if (!json.is_object()) fail(where, "not an object");
    for (const auto& [key, value] : json.items()) {
      if (std::ranges::find(known, key) == known.end()) fail(where, fmt::format("unknown key {}", key));
    }
  }

  int ranks(const ordered_json& json, const std::string& where) const {
    const int ranks = member<int>(json, "ranks", where);
    if (ranks < 1) fail(where, fmt::format("ranks is {}", ranks));
    return ranks;
  }

  std::vector<Release> releases(const ordered_json& json, const std::string& where) const {
    const auto text = member<std::string>(json, "deepspeed", where);
    return parse_releases(text, [&](size_t, const std::string& message, const std::string& advice) {
      fail(where + ".deepspeed", message, advice);
    });
  }

  BaselineProgram program(const ordered_json& json, const std::string& where) const {
    check_keys(json, {"name", "file", "ranks", "seed", "outcomes"}, where);
    BaselineProgram program{.name = member<std::string>(json, "name", where),
                            .file = member<std::string>(json, "file", where),
                            .ranks = ranks(json, where),
                            .seed = member<uint64_t>(json, "seed", where),
                            .outcomes = {}};
    const auto outcomes = member<std::vector<ordered_json>>(json, "outcomes", where);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const std::string here = fmt::format("{}.outcomes[{}]", where, i);
      check_keys(outcomes[i], {"deepspeed", "outcome"}, here);
      try {
        const Outcome outcome = outcome_of_json(member<ordered_json>(outcomes[i], "outcome", here));
        for (const Release& release : releases(outcomes[i], here))
          program.outcomes.push_back({release, outcome});
      } catch (const NotAnOutcome& error) {
        fail(here + ".outcome", error.what());
      }
    }
    if (program.outcomes.empty()) fail(where, "no outcomes");
    std::ranges::stable_sort(program.outcomes, {}, &ReleaseOutcome::release);
    return program;
  }

  AcceptedChange accepted(const ordered_json& json, const std::string& where) const {
    check_keys(json, {"program", "ranks", "deepspeed", "what", "from", "to", "note"}, where);
    return {.program = member<std::string>(json, "program", where),
            .ranks = ranks(json, where),
            .releases = releases(json, where),
            .change = {member<std::string>(json, "what", where), member<std::string>(json, "from", where),
                       member<std::string>(json, "to", where)},
            .note = json.contains("note") ? member<std::string>(json, "note", where) : ""};
  }

 private:
  const std::string& path_;
};

}  // namespace

const ReleaseOutcome& BaselineProgram::nearest(const Release& release) const {
  const auto after = std::ranges::upper_bound(outcomes, release, {}, &ReleaseOutcome::release);
  return after == outcomes.begin() ? outcomes.front() : *(after - 1);
}

std::vector<Release> Baseline::releases() const {
  std::vector<Release> all;
  for (const BaselineProgram& program : programs) {
    for (const ReleaseOutcome& one : program.outcomes) all.push_back(one.release);
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Baseline baseline_of(const std::vector<TestedProgram>& programs, const std::vector<Release>& releases) {
  Baseline baseline;
  for (const TestedProgram& program : programs) {
    BaselineProgram& kept = baseline.programs.emplace_back();
    kept.name = program.name;
    kept.file = program.path;
    kept.ranks = program.ranks();
    kept.seed = program.seed;
    kept.outcomes = program.outcomes_on(releases);
  }
  return baseline;
}

std::string baseline_text(const Baseline& baseline) {
  ordered_json out = {{kVersionKey, kBaselineVersion},
                      {"programs", ordered_json::array()},
                      {"accepted", ordered_json::array()}};
  for (const BaselineProgram& program : baseline.programs) out["programs"].push_back(program_json(program));
  for (const AcceptedChange& accepted : baseline.accepted) out["accepted"].push_back(accepted_json(accepted));
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Baseline parse_baseline(const std::string& text, const std::string& path) {
  const Reader reader(path);
  ordered_json json;
  try {
    json = ordered_json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const size_t at = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
    const size_t line_start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    throw BadInput(path, text, Place{static_cast<int>(line), static_cast<int>(at - line_start) + 1},
                   "this is no JSON", "zero3sim regress --write makes a baseline");
  }
  if (!json.is_object() || !json.contains(kVersionKey) || !json.at(kVersionKey).is_number_integer())
    reader.fail("", fmt::format("no baseline: it has no {}", kVersionKey),
                "zero3sim regress --write makes a baseline");
  if (const auto format = json.at(kVersionKey).get<int64_t>(); format != kBaselineVersion) {
    reader.fail("",
                fmt::format("a baseline of format version {}; this zero3sim reads version {}", format,
                            kBaselineVersion),
                "zero3sim regress --write makes it anew");
  }
  reader.check_keys(json, {kVersionKey, "programs", "accepted"}, "");
  Baseline baseline;
  const auto programs = reader.member<std::vector<ordered_json>>(json, "programs", "");
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string where = fmt::format("programs[{}]", i);
    BaselineProgram program = reader.program(programs[i], where);
    for (const BaselineProgram& other : baseline.programs) {
      if (other.name == program.name && other.ranks == program.ranks && other.file == program.file)
        reader.fail(where, fmt::format("{} on {} ranks is there twice", program.name, program.ranks));
    }
    baseline.programs.push_back(std::move(program));
  }
  const auto accepted = reader.member<std::vector<ordered_json>>(json, "accepted", "");
  for (size_t i = 0; i < accepted.size(); ++i)
    baseline.accepted.push_back(reader.accepted(accepted[i], fmt::format("accepted[{}]", i)));
  if (baseline.programs.empty()) reader.fail("", "a baseline without programs");
  return baseline;
}

}  // namespace zero3::sim
