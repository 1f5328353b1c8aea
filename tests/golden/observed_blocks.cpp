#include "tests/golden/observed_blocks.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/nested_model.h"
#include "sim/observed_log.h"
#include "sim/short_form.h"
#include "sim/simulate.h"
#include "sim/verify/error_text.h"
#include "tests/golden/overflows.h"

namespace zero3::golden {
namespace {

using sim::Naming;

std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string squeeze(const std::string& text) {
  std::string out;
  for (const std::string& word : split(text)) out += (out.empty() ? "" : " ") + word;
  return out;
}

sim::ShortFormOptions options_of(const std::string& cfg) {
  std::istringstream numbers(cfg);
  sim::ShortFormOptions options;
  int input_requires_grad = 1;
  numbers >> options.gradient_accumulation_steps >> options.max_reuse_distance_numel >>
      options.prefetch_bucket_numel >> options.max_live_numel >> options.param_persistence_threshold_numel >>
      input_requires_grad;
  options.input_requires_grad = input_requires_grad != 0;
  return options;
}

void read_header(Block& block) {
  static const std::regex kFlat(R"(^= (.*): \(([-0-9 ]+)\) (.*)$)");
  std::smatch match;
  const size_t brace = block.header.find('{');
  block.nested = brace != std::string::npos;
  if (block.nested) {
    const std::string json = block.header.substr(brace);
    const auto document = nlohmann::json::parse(json);
    block.program = document.at("s");
    sim::ShortFormOptions options = options_of(document.at("cfg"));
    options.ranks = document.value("ranks", 1);
    block.experiment =
        sim::nested_experiment(sim::parse_nested_model(json, block.file), block.program, options);
    mark_overflows(split(block.header).at(1), block.file, block.experiment.rank_programs.front());
  } else if (std::regex_match(block.header, match, kFlat)) {
    sim::ShortFormOptions options = options_of(match[2]);
    if (match[1].str().find("dup") != std::string::npos || match[1].str().find("tied") != std::string::npos) {
      options.dup = "A";
    }
    block.program = match[3];
    block.experiment = sim::parse_short_form(block.program, options);
  } else {
    throw std::runtime_error(block.file + ": not a header: " + block.header);
  }
}

bool is_event(const std::string& word) {
  static const std::regex kEvent(
      R"(^(\[\d+\]fetch\(.*|AG\{.*|PREFETCH\{.*|REL|RELALL|INVALIDATE|reset_step|mode=.*|step:=0)$)");
  return std::regex_match(word, kEvent);
}

// The statuses: the last "[...]" of words such as A=N before the events.
const std::regex kStatuses(R"(\[((?:[A-Za-z][A-Za-z0-9_.]*=[NIA]\*? ?)+)\])");

std::vector<std::string> event_items(const std::vector<std::string>& words, size_t first) {
  std::vector<std::string> items;
  for (size_t i = first; i < words.size(); ++i) {
    if ((words[i] == "REL" || words[i] == "RELALL") && i + 1 < words.size()) {
      items.push_back(words[i] + " " + words[i + 1]);
      ++i;
    } else {
      items.push_back(words[i]);
    }
  }
  return items;
}

class Watcher final : public sim::RankWatcher {
 public:
  Watcher(const Behaviour& behaviour, Naming naming, std::vector<RecordedStep>& steps)
      : behaviour_(behaviour), naming_(naming), log_(behaviour_, naming), steps_(steps) {}

  void on_event(const Event& event) override { log_.on_event(event); }
  void after_statement(const sim::Statement& statement, const Failure* failure,
                       const sim::RankRunner& runner) override {
    const std::string statuses = sim::statuses_text(runner.parameters(), naming_, behaviour_);
    const std::string printed = log_.take_printed();
    steps_.push_back(
        parse_step(sim::observed_line(statement.text, failure, statuses, printed, log_.take_events())));
    if (failure == nullptr) return;
    steps_.back().full_error = failure->message();
    steps_.back().full_path = fmt::format("{}", fmt::join(failure->path, ">"));
  }

 private:
  Behaviour behaviour_;
  Naming naming_;
  sim::ObservedLog log_;
  std::vector<RecordedStep>& steps_;
};

// "AG{CB}" of flat models: letters sorted; "AG{b.p0,a.p1}": names sorted. v1's launch order is kept.
std::string normalised_gather(const std::string& item, bool nested) {
  const size_t open = item.find('{');
  std::string inside = item.substr(open + 1, item.size() - open - 2);
  if (!nested) {
    std::ranges::sort(inside);
    return item.substr(0, open + 1) + inside + "}";
  }
  std::vector<std::string> names;
  std::istringstream parts(inside);
  for (std::string name; std::getline(parts, name, ',');) names.push_back(name);
  std::ranges::sort(names);
  return item.substr(0, open + 1) + fmt::format("{}", fmt::join(names, ",")) + "}";
}

std::vector<std::string> normalised(const std::vector<std::string>& events, bool nested,
                                    bool ordered_gathers) {
  std::vector<std::string> items = events;
  for (std::string& item : items) {
    if (!ordered_gathers && item.starts_with("AG{")) item = normalised_gather(item, nested);
  }
  const auto is_release = [](const std::string& item) { return item.starts_with("REL"); };
  for (auto first = std::ranges::find_if(items, is_release); first != items.end();) {
    const auto last = std::find_if_not(first, items.end(), is_release);
    std::sort(first, last);
    first = std::find_if(last, items.end(), is_release);
  }
  return items;
}

constexpr size_t kRecordedTextLength = 200;  // no recorded text that long is surely whole

// An error as its kind of text and the params it names: a Python set's order, and a text cut by the recorder at a few
// hundred characters, must not matter.
struct ComparableError {
  std::string skeleton;  // up to the first param, and what follows the last if the text is whole
  std::multiset<std::string> params;
  bool cut = false;
};

ComparableError comparable(const std::string& error) {
  static const std::regex kEntry(
      R"(\{'id': ([^,]*), 'status': '([A-Z_]*)', \.\.\. ?'(?:asm|active_sub_modules)': )"
      R"((set\(\)|\{[0-9, ]*\})(, 'ds_tensor\.shape': torch\.Size\(\[\d+\]\))?\})");
  static const std::regex kMethod(
      R"(<bound method Init\._convert_to_deepspeed_param\.<locals>\.ds_summary of )"
      R"(Parameter containing: tensor\(\.\.\.\)>)");
  ComparableError result;
  for (const std::regex& pattern : {kEntry, kMethod}) {
    for (std::sregex_iterator it(error.begin(), error.end(), pattern), end; it != end; ++it) {
      result.params.insert(
          fmt::format("{} {} {} {}", (*it)[1].str(), (*it)[2].str(), (*it)[3].str(), (*it)[4].str()));
    }
  }
  std::string rest = std::regex_replace(std::regex_replace(error, kEntry, "%"), kMethod, "%");
  const size_t unfinished = std::min({rest.find("{'id"), rest.find("<bound"), rest.find(" ..."),
                                      rest.find("%, {"), rest.find("%, {'"), rest.find("%, <")});
  result.cut = unfinished != std::string::npos || error.size() >= kRecordedTextLength;
  result.skeleton = rest.substr(0, std::min(unfinished, result.cut ? rest.find('%') : std::string::npos));
  return result;
}

// "RuntimeError 'text\n...'": type and Python repr, to "RuntimeError: text...".
std::string from_repr(const std::string& line) {
  const size_t space = line.find(' ');
  std::string text = line.substr(0, space) + ": ";
  for (size_t i = space + 2; i + 1 < line.size(); ++i) {
    if (line[i] != '\\') {
      text += line[i];
      continue;
    }
    ++i;
    text += line[i] == 'n' ? '\n' : line[i] == 't' ? '\t' : line[i];
  }
  return text;
}

bool same_error(const std::string& recorded, const std::string& modelled) {
  const ComparableError seen = comparable(sim::without_places(recorded));
  ComparableError ours = comparable(sim::without_places(modelled));
  if (!seen.cut) return seen.skeleton == ours.skeleton && seen.params == ours.params;
  const bool starts =
      comparable(modelled).skeleton.starts_with(seen.skeleton) || modelled.starts_with(seen.skeleton);
  return starts && std::ranges::includes(ours.params, seen.params);
}

std::string own_frames(const std::string& path) {
  static const std::set<std::string> kRecorder = {"f", "rs", "pf", "do", "run", "wrapped_fn"};
  std::string out;
  std::istringstream parts(path);
  for (std::string frame; std::getline(parts, frame, '>');) {
    if (!kRecorder.contains(frame)) out += (out.empty() ? "" : ">") + frame;
  }
  return out;
}

}  // namespace

RecordedStep parse_step(const std::string& line) {
  RecordedStep step;
  step.line = line;
  std::smatch status;
  std::string::const_iterator after = line.end();
  std::string::const_iterator before = line.end();
  for (std::sregex_iterator it(line.begin(), line.end(), kStatuses), end; it != end; ++it) {
    status = *it;
    step.statuses = squeeze(status[1]);
    before = status[0].first;
    after = status[0].second;
  }
  const std::vector<std::string> rest = split(std::string(after, line.end()));
  const size_t first_event = static_cast<size_t>(std::ranges::find_if(rest, is_event) - rest.begin());
  for (size_t i = 0; i < first_event; ++i) step.printed += (i == 0 ? "" : " ") + rest[i];
  step.events = event_items(rest, first_event);
  const std::string head(line.begin(), before);
  const std::vector<std::string> words = split(head);
  step.token = words.at(0);
  step.failed = words.at(1) == "FAIL";
  if (step.failed) {
    std::string text = head.substr(head.find("FAIL") + 4);
    const size_t at = text.rfind(" @ ");
    step.path = at == std::string::npos ? "" : squeeze(text.substr(at + 3));
    step.error = squeeze(text.substr(0, at));
  }
  return step;
}

std::vector<Block> read_observed(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Block> blocks;
  static const std::regex kRelease(R"(^v(\d+\.\d+\.\d+)\..*)");
  for (const auto& file : files) {
    std::smatch match;
    const std::string name = file.filename().string();
    if (!std::regex_match(name, match, kRelease)) throw std::runtime_error("no release in " + name);
    std::ifstream input(file);
    int number = 0;
    for (std::string line; std::getline(input, line);) {
      ++number;
      if (line.starts_with("= ")) {
        Block block;
        block.file = std::filesystem::relative(file, folder).string();
        block.line = number;
        block.header = line;
        block.release = *Release::parse(match[1].str());
        block.has_events = name != "v0.5.10.main.txt";
        read_header(block);
        blocks.push_back(std::move(block));
      } else if (line.starts_with("    ! ") && !blocks.empty() && !blocks.back().steps.empty()) {
        blocks.back().steps.back().full_error = from_repr(line.substr(6));
      } else if (line.starts_with("    @ ") && !blocks.empty() && !blocks.back().steps.empty()) {
        blocks.back().steps.back().full_path = line.substr(6);
      } else if (line.starts_with("  ") && !blocks.empty()) {
        blocks.back().steps.push_back(parse_step(line));
      }
    }
  }
  return blocks;
}

std::vector<RecordedStep> run_model(const Block& block) {
  std::vector<RecordedStep> steps;
  const Behaviour behaviour = behaviour_of(block.release);
  sim::SimulationOptions options{block.release, 0, {}};
  options.watch = [&](int) {
    return std::make_unique<Watcher>(behaviour, block.nested ? Naming::kNested : Naming::kFlat, steps);
  };
  sim::simulate(block.experiment, options);
  return steps;
}

std::string difference(const Block& block, const std::vector<RecordedStep>& modelled) {
  const auto differ = [&](size_t i, const std::string& what) {
    return fmt::format("{}:{}: {}\n  step {}: {} differs\n  recorded {}\n  modelled {}", block.file,
                       block.line, block.header, i, what,
                       i < block.steps.size() ? block.steps[i].line : "(nothing)",
                       i < modelled.size() ? modelled[i].line : "(nothing)");
  };
  const bool v1 = behaviour_of(block.release).coordinator == Coordinator::kPrefetch;
  for (size_t i = 0; i < block.steps.size(); ++i) {
    if (i >= modelled.size()) return differ(i, "the number of steps");
    const RecordedStep& recorded = block.steps[i];
    const RecordedStep& model = modelled[i];
    if (recorded.token != model.token) return differ(i, "token");
    if (recorded.failed != model.failed) return differ(i, "outcome");
    if (recorded.statuses != model.statuses) return differ(i, "statuses");
    if (!block.nested && recorded.printed != model.printed) return differ(i, "printed lines");
    if (block.has_events &&
        normalised(recorded.events, block.nested, v1) != normalised(model.events, block.nested, v1)) {
      return differ(i, "events");
    }
    if (!recorded.failed) continue;
    if (!same_error(recorded.error, model.error)) return differ(i, "error text");
    if (!recorded.path.empty() && !own_frames(model.path).ends_with(own_frames(recorded.path)) &&
        !own_frames(recorded.path).ends_with(own_frames(model.path))) {
      return differ(i, "call path");
    }
    if (!recorded.full_error.empty() && recorded.full_path != model.full_path) {
      return differ(i, fmt::format("whole call path\n  recorded {}\n  modelled {}\n ", recorded.full_path,
                                   model.full_path));
    }
    if (!recorded.full_error.empty() && !sim::same_error(recorded.full_error, model.full_error)) {
      return differ(i, fmt::format("whole text\n  recorded {}\n  modelled {}\n ", recorded.full_error,
                                   model.full_error));
    }
  }
  return modelled.size() > block.steps.size() ? differ(block.steps.size(), "the number of steps") : "";
}

}  // namespace zero3::golden
