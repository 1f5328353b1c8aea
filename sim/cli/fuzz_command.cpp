// zero3sim fuzz: random programs on an installed DeepSpeed and on its model.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "sim/bad_input.h"
#include "sim/cli/commands.h"
#include "sim/cli/common.h"
#include "sim/fuzz/fuzzer.h"
#include "sim/fuzz/probe_judge.h"
#include "sim/fuzz/statistics.h"
#include "sim/report/run_report.h"
#include "sim/report/trace_file.h"
#include "sim/run_file/run_file.h"
#include "sim/verify/verification.h"

namespace zero3::sim::cli {
namespace {

using nlohmann::ordered_json;

// One line on a terminal, written over and over; nothing in a pipe.
class CampaignLine {
 public:
  explicit CampaignLine(uint64_t programs) : programs_(programs), shown_(isatty(STDERR_FILENO) == 1) {}
  CampaignLine(const CampaignLine&) = delete;
  CampaignLine& operator=(const CampaignLine&) = delete;
  ~CampaignLine() { clear(); }

  void show(const FuzzResult& so_far) {
    if (!shown_) return;
    const FuzzResult::Counts& counts = so_far.counts;
    std::fputs(
        fmt::format("\r{} of {} programs: {} agree, {} differ, {} undecided", counts.total(), programs_,
                    counts.agree, counts.differ, counts.inconclusive + counts.timed_out + counts.died)
            .c_str(),
        stderr);
    written_ = true;
  }

  void clear() {
    if (written_) std::fputs("\r\033[K", stderr);
    written_ = false;
  }

 private:
  uint64_t programs_;
  bool shown_;
  bool written_ = false;
};

struct Campaign {
  ProbeInfo installed;
  ModelledRelease model;
  FuzzOptions options;
};

// Before hours of work: that the folder is one, or can be made where its nearest parent is.
void check_folder(const std::string& folder) {
  std::filesystem::path there = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(there) && there.has_relative_path()) there = there.parent_path();
  if (!std::filesystem::is_directory(there))
    throw BadInput(fmt::format("--out: {} is no folder", there.string()), "name a folder for what differs");
  if (access(there.c_str(), W_OK) != 0)
    throw BadInput(fmt::format("--out: cannot write below {}", there.string()),
                   "name a folder for what differs");
}

std::string file_stem(const Campaign& campaign, uint64_t index) {
  return fmt::format("{}-{}.{}", campaign.installed.deepspeed, campaign.options.seed, index);
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw BadInput(fmt::format("cannot write {}", path.string()));
}

std::string reproduce_line(const FuzzArguments& arguments, const Campaign& campaign, uint64_t index) {
  return fmt::format(
      "zero3sim verify {} --python {}",
      shell_word((std::filesystem::path(arguments.out) / (file_stem(campaign, index) + ".run")).string()),
      shell_word(arguments.python));
}

// The run file, both traces, and what differs.
void write_finding(const FuzzArguments& arguments, const Campaign& campaign, const FuzzFinding& finding) {
  const std::filesystem::path folder(arguments.out);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BadInput(fmt::format("cannot make the folder {}: {}", arguments.out, error.message()));
  const std::string stem = file_stem(campaign, finding.index);
  const std::string name = fmt::format("{}.{}", campaign.options.seed, finding.index);
  write_file(folder / (stem + ".run"), write_run(finding.smallest, name, 0));
  write_file(folder / (stem + ".real.jsonl"), finding.judgement.real_trace);
  const RunReport report = make_report(
      finding.smallest,
      {name, "", campaign.model.release, 0, reproduce_line(arguments, campaign, finding.index)}, {});
  write_file(folder / (stem + ".model.jsonl"), trace_text(report));
}

std::string text_of(const FuzzArguments& arguments, const Campaign& campaign, const FuzzFinding& finding) {
  return fmt::format(
      "program {} differs: {}\n{}  {} after {} runs\n  reproduce: {}\n\n", finding.index,
      finding.judgement.way, finding.judgement.report,
      finding.finished ? "the smallest program that does" : "shrunk as far as the limit let it", finding.runs,
      reproduce_line(arguments, campaign, finding.index));
}

std::string indices(const std::vector<uint64_t>& programs) {
  std::string text;
  for (size_t i = 0; i < programs.size() && i < 10; ++i)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", programs[i]);
  return programs.size() > 10 ? text + ", ..." : text;
}

std::string by_ranks(const FuzzResult& result) {
  std::string text;
  for (const auto& [ranks, programs] : result.programs_by_ranks)
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", programs, ranks);
  return text;
}

std::string model_note(const Campaign& campaign) {
  if (campaign.model.exact) return "";
  return fmt::format("DeepSpeed {} is not modelled; compared with the model of {}\n",
                     campaign.installed.deepspeed, campaign.model.release.text());
}

std::string table(const Campaign& campaign, const FuzzResult& result) {
  const FuzzResult::Counts& counts = result.counts;
  std::string text = model_note(campaign);
  for (const auto& [why, programs] : result.undecided)
    text += fmt::format("undecided, {}: {} (program {})\n", programs.size(), why, indices(programs));
  text +=
      "| DeepSpeed | torch | programs | by ranks | raise | events | agree | differ | inconclusive | timed "
      "out | "
      "died | seed | first |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  return text + fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                            campaign.installed.deepspeed, campaign.installed.torch, counts.total(),
                            by_ranks(result), result.raised, result.events, counts.agree, counts.differ,
                            counts.inconclusive, counts.timed_out, counts.died, campaign.options.seed,
                            campaign.options.first);
}

std::string json_of(const FuzzArguments& arguments, const Campaign& campaign, const FuzzResult& result) {
  const FuzzResult::Counts& counts = result.counts;
  ordered_json json = {{"deepspeed", campaign.installed.deepspeed},
                       {"torch", campaign.installed.torch},
                       {"python", campaign.installed.python},
                       {"model", campaign.model.release.text()},
                       {"seed", campaign.options.seed},
                       {"first", campaign.options.first},
                       {"programs", counts.total()},
                       {"raise", result.raised},
                       {"events", result.events},
                       {"agree", counts.agree},
                       {"differ", counts.differ},
                       {"inconclusive", counts.inconclusive},
                       {"timed_out", counts.timed_out},
                       {"died", counts.died}};
  ordered_json ranks = ordered_json::object();
  for (const auto& [number, programs] : result.programs_by_ranks) ranks[std::to_string(number)] = programs;
  json["programs_by_ranks"] = ranks;
  json["undecided"] = ordered_json::array();
  for (const auto& [why, programs] : result.undecided)
    json["undecided"].push_back({{"why", why}, {"programs", programs}});
  json["differences"] = ordered_json::array();
  for (const FuzzFinding& finding : result.findings) {
    json["differences"].push_back({{"program", finding.index},
                                   {"ranks", finding.ranks},
                                   {"way", finding.judgement.way},
                                   {"report", finding.judgement.report},
                                   {"runs", finding.runs},
                                   {"smallest", finding.finished},
                                   {"reproduce", reproduce_line(arguments, campaign, finding.index)}});
  }
  return json.dump(2) + "\n";
}

Verdict verdict_of(const FuzzResult::Counts& counts) {
  if (counts.differ > 0) return Verdict::kNotAsExpected;
  if (counts.timed_out > 0) return Verdict::kHang;
  return counts.inconclusive + counts.died > 0 ? Verdict::kInconclusive : Verdict::kAsExpected;
}

Campaign campaign_of(const FuzzArguments& arguments, const ProbeOptions& probe) {
  Campaign campaign{.installed = ProbeSession(probe).info(), .model = {}, .options = arguments.options};
  const std::optional<ModelledRelease> model = model_for(campaign.installed.deepspeed);
  if (!model)
    throw BadInput(fmt::format("DeepSpeed calls itself '{}': no release", campaign.installed.deepspeed));
  campaign.model = *model;
  campaign.options.target = {model->release, stops_recompute_early(campaign.installed.torch)};
  return campaign;
}

Verdict print_statistics(const FuzzArguments& arguments) {
  const FuzzTarget target{.release = chosen_release(arguments.deepspeed, "--deepspeed")};
  const FuzzOptions& options = arguments.options;
  print(text_of(statistics_of(options.seed, options.first, options.programs, target, options.ranks)));
  return Verdict::kAsExpected;
}

}  // namespace

Verdict fuzz_programs(const FuzzArguments& arguments) {
  if (arguments.statistics) return print_statistics(arguments);
  if (arguments.python.empty())
    throw BadInput("fuzz needs --python",
                   "the interpreter that has DeepSpeed; or --statistics, which needs none");
  check_folder(arguments.out);
  const ProbeOptions probe{.python = arguments.python, .timeout_s = arguments.timeout_s};
  const Campaign campaign = campaign_of(arguments, probe);
  CampaignLine progress(campaign.options.programs);
  FuzzHooks hooks;
  hooks.make_judge = [&] { return std::make_unique<ProbeJudge>(probe, campaign.model.release, 0); };
  hooks.progress = [&](const FuzzResult& so_far) { progress.show(so_far); };
  hooks.found = [&](const FuzzFinding& finding) {
    progress.clear();
    write_finding(arguments, campaign, finding);
    if (arguments.format == Format::kText) print(text_of(arguments, campaign, finding));
  };
  const FuzzResult result = fuzz(campaign.options, hooks);
  progress.clear();
  print(arguments.format == Format::kJson ? json_of(arguments, campaign, result) : table(campaign, result));
  return verdict_of(result.counts);
}

}  // namespace zero3::sim::cli
