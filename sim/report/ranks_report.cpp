#include "sim/report/ranks_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/mixed_data.h"
#include "sim/report/backend_words.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxMixUps = 4;

std::vector<int> collateral(const RunReport& report) {
  std::vector<int> ranks;
  for (const RankResult& rank : report.result.ranks) {
    if (rank.failure &&
        std::ranges::find(report.parting->started, rank.rank) == report.parting->started.end())
      ranks.push_back(rank.rank);
  }
  return ranks;
}

// Ranks that raise while others wait for ever.
std::vector<int> raising(const RunReport& report) {
  std::vector<int> ranks;
  for (const RankResult& rank : report.result.ranks) {
    if (rank.failure && rank.failure->kind != FailureKind::kHang) ranks.push_back(rank.rank);
  }
  return ranks;
}

std::string does(const Branch& branch) {
  if (branch.statement.empty()) return "at the end of the program";
  const std::string call = branch.detail.empty() ? "" : fmt::format(", calling {}", branch.detail);
  return fmt::format("at '{}'{}", branch.statement, call);
}

std::string parting_text(const RunReport& report) {
  const Parting& parting = *report.parting;
  std::string text = fmt::format("  ranks part at step {}:", parting.statement + 1);
  for (const Branch& branch : parting.branches) {
    text += fmt::format("{} {} {}", &branch == &parting.branches.front() ? "" : ";", rank_list(branch.ranks),
                        does(branch));
  }
  text += fmt::format("\n  started by: {} ({})\n", rank_list(parting.started), parting.why);
  const std::vector<int> others = collateral(report);
  if (!others.empty()) text += fmt::format("  collateral: {}\n", rank_list(others));
  const std::vector<int> raised = raising(report);
  if (!raised.empty() && !report.result.waits.empty()) {
    text += fmt::format("  {} {}; the others then wait for what never comes\n", rank_list(raised),
                        raised.size() == 1 ? "raises" : "raise");
  }
  return text;
}

std::string side_text(const Side& side) {
  if (!side.collective) return fmt::format("    {} {}\n", rank_list(side.ranks), side.instead);
  const std::string ids = side.collective->ds_ids.empty()
                              ? ""
                              : fmt::format(", ds_id {}", fmt::join(side.collective->ds_ids, ", "));
  return fmt::format("    {}: {}{}, step {}\n", rank_list(side.ranks), side.collective->text(), ids,
                     side.collective->statement + 1);
}

const Waiting* waiting_of(const RunReport& report, int rank) {
  const auto found = std::ranges::find(report.result.waits, rank, &Waiting::rank);
  return found == report.result.waits.end() ? nullptr : &*found;
}

std::string state_of(const RunReport& report, int rank) {
  if (const Waiting* waiting = waiting_of(report, rank))
    return fmt::format("waits in {}", waiting->collective.text());
  const auto& failure = report.result.ranks[static_cast<size_t>(rank)].failure;
  return failure ? fmt::format("raised {}", failure->exception) : "ended its program";
}

std::string waits_text(const RunReport& report) {
  if (report.result.waits.empty()) return "";
  std::string text = "  waits:\n";
  for (const Waiting& waiting : report.result.waits) {
    const Collective& collective = waiting.collective;
    text += fmt::format("    rank {} in {} ({} group, number {}) for {} ({}): {}\n", waiting.rank,
                        collective.text(), name(collective.group), collective.number,
                        rank_list(waiting.for_ranks), state_of(report, waiting.for_ranks.front()),
                        obstacle_text(waiting.obstacle));
  }
  text += "  in the end, each rank shows:\n";
  for (const RankResult& rank : report.result.ranks) {
    const Waiting* waiting = waiting_of(report, rank.rank);
    if (waiting != nullptr) {
      text += fmt::format("    rank {} on NCCL: {}\n", rank.rank, nccl_text(*waiting, report.ranks));
      text += fmt::format("    rank {} on gloo: {}\n", rank.rank, gloo_text(*waiting));
    } else if (rank.failure) {
      text += fmt::format("    rank {}: its own {}\n", rank.rank, rank.failure->exception);
    } else {
      text += fmt::format("    rank {}: nothing\n", rank.rank);
    }
  }
  return text;
}

ordered_json side_json(const Side& side) {
  if (!side.collective) return {{"ranks", side.ranks}, {"operation", nullptr}, {"instead", side.instead}};
  const Collective& collective = *side.collective;
  return {{"ranks", side.ranks},
          {"operation", name(collective.kind)},
          {"text", collective.text()},
          {"params", collective.names},
          {"ds_ids", collective.ds_ids},
          {"numel", collective.numel()},
          {"step", collective.statement + 1}};
}

ordered_json disagreement_json(const Disagreement& disagreement) {
  ordered_json sides = ordered_json::array();
  for (const Side& side : disagreement.sides) sides.push_back(side_json(side));
  return {{"process_group", name(disagreement.group)}, {"number", disagreement.number}, {"sides", sides}};
}

ordered_json parting_json(const RunReport& report) {
  const Parting& parting = *report.parting;
  ordered_json branches = ordered_json::array();
  for (const Branch& branch : parting.branches) {
    branches.push_back(
        {{"ranks", branch.ranks},
         {"statement", branch.statement.empty() ? ordered_json(nullptr) : ordered_json(branch.statement)}});
    if (!branch.detail.empty()) branches.back()["calls"] = branch.detail;
  }
  return {{"step", parting.statement + 1},    {"branches", branches},
          {"started", parting.started},       {"why", parting.why},
          {"collateral", collateral(report)}, {"raising", raising(report)}};
}

std::string_view obstacle_name(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNone: return "none";
    case Obstacle::kAbsent: return "absent";
    case Obstacle::kOtherOperation: return "other operation";
    case Obstacle::kOtherSize: return "other size";
  }
  return "?";
}

ordered_json waits_json(const RunReport& report) {
  ordered_json waits = ordered_json::array();
  for (const Waiting& waiting : report.result.waits) {
    waits.push_back({{"rank", waiting.rank},
                     {"process_group", name(waiting.collective.group)},
                     {"number", waiting.collective.number},
                     {"collective", side_json({{waiting.rank}, waiting.collective, ""})},
                     {"for", waiting.for_ranks},
                     {"because", obstacle_name(waiting.obstacle)},
                     {"nccl", nccl_text(waiting, report.ranks)},
                     {"gloo", gloo_text(waiting)}});
  }
  return waits;
}

ordered_json mix_ups_json(const RunReport& report) {
  ordered_json all = ordered_json::array();
  for (const MixUp& mix_up : report.result.mix_ups) {
    ordered_json pieces = ordered_json::array();
    for (const MixedPiece& piece : mix_up.pieces) {
      pieces.push_back({{"ranks", piece.ranks},
                        {"ds_id", piece.ds_id},
                        {"name", piece.name},
                        {"first", piece.first},
                        {"end", piece.end},
                        {"from_rank", piece.from_rank},
                        {"of_ds_id", piece.of_ds_id},
                        {"of_name", piece.of_name}});
    }
    ordered_json one = disagreement_json(mix_up.where);
    one["gradients"] = mix_up.of_gradients();
    one["pieces"] = pieces;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::string ranks_text(const RunReport& report) {
  if (report.ranks == 1) return "";
  if (!report.parting)
    return report.failure() == nullptr ? "" : "  ranks: all do the same, and none started it\n";
  std::string text = parting_text(report);
  if (const std::optional<Disagreement>& first = report.result.first_disagreement) {
    text += fmt::format("  first collective that differs: number {} of the {} group\n", first->number,
                        name(first->group));
    for (const Side& side : first->sides) text += side_text(side);
  }
  text += waits_text(report);
  size_t shown = 0;
  for (const std::string& corruption : report.result.corruptions) {
    if (++shown > kMaxMixUps) break;
    text += fmt::format("  wrong data: {}\n", corruption);
  }
  if (shown > kMaxMixUps)
    text += fmt::format("  and in {} more collectives\n", report.result.corruptions.size() - kMaxMixUps);
  return text;
}

ordered_json ranks_json(const RunReport& report) {
  if (!report.parting) return nullptr;
  ordered_json out = parting_json(report);
  const auto& first = report.result.first_disagreement;
  out["first_disagreement"] = first ? disagreement_json(*first) : ordered_json(nullptr);
  out["waits"] = waits_json(report);
  out["mix_ups"] = mix_ups_json(report);
  return out;
}

}  // namespace zero3::sim
