#include "sim/verify/comparison.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/verify/error_text.h"
#include "sim/verify/trace_text.h"

namespace zero3::sim {
namespace {

struct Item {
  enum class Kind { kStatement, kEvent, kFailure, kPath, kStatuses, kStop };
  Kind kind;
  size_t statement;
  TraceEvent event = {};
  std::string text = {};  // as shown; for kFailure and kStatuses, as compared
  TraceStop::Kind stop = TraceStop::Kind::kTimeout;
};

std::string_view what_of(Item::Kind kind) {
  switch (kind) {
    case Item::Kind::kStatement: return "statement";
    case Item::Kind::kEvent: return "event";
    case Item::Kind::kFailure: return "failure";
    case Item::Kind::kPath: return "path";
    case Item::Kind::kStatuses: return "statuses";
    case Item::Kind::kStop: return "hang";
  }
  return "?";
}

// Neighbours whose order is that of a Python set.
bool unordered(const TraceEvent& a, const TraceEvent& b) {
  if (a.event != b.event) return false;
  if (a.event == "release") return a.reason == b.reason || a.reason.empty() || b.reason.empty();
  return a.event == "wait" && a.step == b.step && a.module_id == b.module_id;
}

std::vector<TraceEvent> canonical(std::vector<TraceEvent> events) {
  for (auto first = events.begin(); first != events.end();) {
    const auto last = std::find_if(first + 1, events.end(),
                                   [&](const TraceEvent& other) { return !unordered(*first, other); });
    std::stable_sort(first, last,
                     [](const TraceEvent& a, const TraceEvent& b) { return a.ds_ids < b.ds_ids; });
    first = last;
  }
  return events;
}

std::vector<Item> items_of(const RankTrace& rank) {
  std::vector<Item> items;
  for (size_t i = 0; i < rank.statements.size(); ++i) {
    const TraceStatement& statement = rank.statements[i];
    items.push_back({.kind = Item::Kind::kStatement, .statement = i, .text = statement.text});
    for (TraceEvent& event : canonical(statement.events)) {
      const std::string text = text_of(event);
      items.push_back({.kind = Item::Kind::kEvent, .statement = i, .event = std::move(event), .text = text});
    }
    if (statement.failure) {
      items.push_back({.kind = Item::Kind::kFailure, .statement = i, .text = text_of(*statement.failure)});
      items.push_back({.kind = Item::Kind::kPath,
                       .statement = i,
                       .text = fmt::format("raised in {}", fmt::join(statement.failure->path, " > "))});
    }
    if (statement.statuses)
      items.push_back({.kind = Item::Kind::kStatuses, .statement = i, .text = *statement.statuses});
  }
  if (rank.stop) {
    items.push_back({.kind = Item::Kind::kStop,
                     .statement = rank.stop->statement,
                     .text = text_of(*rank.stop),
                     .stop = rank.stop->kind});
  }
  return items;
}

bool same_event(TraceEvent model, const TraceEvent& real) {
  if (model.reason.empty() || real.reason.empty()) model.reason = real.reason;
  return model == real;
}

bool same(const Item& model, const Item& real) {
  if (model.kind != real.kind || model.statement != real.statement) return false;
  switch (model.kind) {
    case Item::Kind::kEvent: return same_event(model.event, real.event);
    case Item::Kind::kFailure: return same_error(model.text, real.text);
    case Item::Kind::kStop: return model.stop == real.stop;
    default: return model.text == real.text;
  }
}

constexpr std::string_view kAborted = "SIGABRT";

// An exception of the communication library itself: where one backend waits for ever, another refuses. v0.6.0 tells the
// tensors' devices instead of what an all-gather raised.
bool is_of_backend(const std::string& error) {
  constexpr std::string_view kWords[] = {"gloo",         "NCCL",
                                         "ProcessGroup", "Connection closed by peer",
                                         "op.preamble",  "RuntimeError: output_tensor: "};
  return std::ranges::any_of(kWords,
                             [&](std::string_view word) { return error.find(word) != std::string::npos; });
}

bool sizes_differ(const RunTrace& model) {
  return std::ranges::any_of(model.by_rank,
                             [](const RankTrace& rank) { return rank.stop && rank.stop->sizes_differ; });
}

// Where the model waits for ever at a handle, a real run may end in the launch: old releases run on a CPU with one that
// does not come back before it is complete.
bool ends_at_the_launch(const std::vector<Item>& modelled, const std::vector<Item>& seen, size_t from) {
  if (from == 0 || from >= seen.size() || seen[from - 1].event.event != "all-gather") return false;
  const Item& end = modelled.back();
  return end.kind == Item::Kind::kStop && end.statement == seen[from].statement;
}

bool waits_at_the_launch(const std::vector<Item>& modelled, const std::vector<Item>& seen, size_t from) {
  return ends_at_the_launch(modelled, seen, from) && seen[from].kind == Item::Kind::kStop &&
         seen[from].stop == TraceStop::Kind::kTimeout;
}

bool refused_at_the_launch(const std::vector<Item>& modelled, const std::vector<Item>& seen, size_t from) {
  return ends_at_the_launch(modelled, seen, from) && seen[from].kind == Item::Kind::kFailure &&
         is_of_backend(seen[from].text);
}

// gloo's own thread kills a rank, which may not have told of its last launches and waits.
bool aborted_before_it_told(const std::vector<Item>& modelled, size_t from, const Item* real_item) {
  if (real_item == nullptr || real_item->kind != Item::Kind::kStop || from >= modelled.size()) return false;
  if (real_item->stop != TraceStop::Kind::kDied || real_item->text.find(kAborted) == std::string::npos)
    return false;
  const auto is_launch_or_wait = [&](const Item& item) {
    return item.kind == Item::Kind::kEvent && item.statement == real_item->statement &&
           (item.event.event == "wait" || item.event.event == "all-gather");
  };
  return modelled.back().kind == Item::Kind::kStop &&
         std::all_of(modelled.begin() + static_cast<std::ptrdiff_t>(from), modelled.end() - 1,
                     is_launch_or_wait);
}

// Where a rank of the model waits for ever and ranks disagree on a size, gloo ends it: it receives more than it asked
// for and aborts, or it goes on with what it has until it misses the connection to one that did.
bool ended_by_gloo(const RunTrace& model, const std::vector<Item>& seen) {
  if (!sizes_differ(model) || seen.empty()) return false;
  const Item& last = *std::find_if(seen.rbegin(), seen.rend() - 1, [](const Item& item) {
    return item.kind == Item::Kind::kStop || item.kind == Item::Kind::kFailure;
  });
  if (last.kind == Item::Kind::kStop)
    return last.stop == TraceStop::Kind::kTimeout || last.text.find(kAborted) != std::string::npos;
  return last.kind == Item::Kind::kFailure && is_of_backend(last.text);
}

struct RankComparison {
  size_t statements = 0;
  size_t events = 0;
  std::optional<Difference> difference;
  std::string inconclusive;
};

std::vector<TraceLine> lines_of(const std::vector<Item>& items) {
  std::vector<TraceLine> lines;
  for (const Item& item : items) {
    const bool is_statement = item.kind == Item::Kind::kStatement;
    lines.push_back({item.statement, is_statement ? "= " + item.text : item.text});
  }
  return lines;
}

// What a gradient's record_stream raises with the stream of a CPU accelerator; a GPU's does it.
constexpr std::string_view kCpuAcceleratorsFault = "unknown parameter type";

// Why the real run says nothing of the place where it and the model part; "" if it does. `waits`: the model does, for
// ever.
std::string untold(const RunTrace& real, bool waits, const Item* real_item) {
  if (real_item == nullptr) return real.whole ? "" : "the real run's trace was cut there";
  if (real_item->kind == Item::Kind::kStop && real_item->stop == TraceStop::Kind::kDied)
    return "the real run's process " + real_item->text;
  if (real_item->kind == Item::Kind::kFailure && real_item->text.ends_with(kCpuAcceleratorsFault))
    return "DeepSpeed's CPU accelerator cannot free a gradient that a leaf module left unreduced; a GPU can";
  if (waits && real_item->kind == Item::Kind::kFailure && is_of_backend(real_item->text))
    return "ranks part there; the real run's backend refuses what others wait for: " + real_item->text;
  return "";
}

std::string what_differs(const Item* model, const Item* real) {
  for (const Item* item : {real, model}) {
    if (item != nullptr && item->kind == Item::Kind::kStop) return "hang";
  }
  if (model == nullptr || real == nullptr) return "end";
  if (model->kind == real->kind) return std::string(what_of(model->kind));
  if (model->kind == Item::Kind::kFailure || real->kind == Item::Kind::kFailure) return "failure";
  return "event";
}

// Where the model waits for ever in a launch, a real run launches, goes on, and waits at the handle: the first of its
// items beyond that.
size_t beyond_the_launch(const std::vector<Item>& seen, size_t from, const Item& model_stop) {
  size_t i = from;
  const auto goes_on = [&](const Item& item) {
    return item.kind == Item::Kind::kEvent && item.statement == model_stop.statement &&
           (item.event.event == "wait" || item.event.event == "all-gather");
  };
  while (i < seen.size() && goes_on(seen[i])) ++i;
  return i;
}

RankComparison compare_rank(const RunTrace& model, const RunTrace& real, int rank) {
  RankComparison result;
  const RankTrace* real_rank = real.rank(rank);
  const RankTrace none{.rank = rank};
  const std::vector<Item> modelled = items_of(model.rank(rank) != nullptr ? *model.rank(rank) : none);
  const std::vector<Item> seen = items_of(real_rank != nullptr ? *real_rank : none);
  for (size_t i = 0; i < std::max(modelled.size(), seen.size()); ++i) {
    const Item* model_item = i < modelled.size() ? &modelled[i] : nullptr;
    const bool model_waits = model_item != nullptr && model_item->kind == Item::Kind::kStop;
    const size_t at = model_waits ? beyond_the_launch(seen, i, *model_item) : i;
    const Item* real_item = at < seen.size() ? &seen[at] : nullptr;
    if (model_item != nullptr && real_item != nullptr && same(*model_item, *real_item)) {
      if (model_waits) break;
      result.events += model_item->kind == Item::Kind::kEvent ? 1 : 0;
      result.statements += model_item->kind == Item::Kind::kStatuses ? 1 : 0;
      continue;
    }
    const bool waits = model_waits || refused_at_the_launch(modelled, seen, i);
    if (waits && ended_by_gloo(model, seen)) break;
    if (sizes_differ(model) && aborted_before_it_told(modelled, i, real_item)) break;
    if (waits_at_the_launch(modelled, seen, i)) break;
    result.inconclusive = untold(real, waits, real_item);
    if (!result.inconclusive.empty()) return result;
    const size_t statement = (real_item != nullptr ? real_item : model_item)->statement;
    result.difference = Difference{rank, statement,          what_differs(model_item, real_item),
                                   i,    lines_of(modelled), lines_of(seen)};
    return result;
  }
  return result;
}

auto order(const Difference& difference) {
  return std::tuple(difference.statement, difference.what == "hang", difference.rank);
}

}  // namespace

std::optional<Difference> difference_of_rank(const RunTrace& model, const RunTrace& real, int rank) {
  return compare_rank(model, real, rank).difference;
}

Comparison compare(const RunTrace& model, const RunTrace& real) {
  Comparison result;
  if (real.refused) {
    result.outcome = Comparison::Outcome::kInconclusive;
    result.text = "real DeepSpeed was not run: " + *real.refused;
    return result;
  }
  for (int rank = 0; rank < model.ranks; ++rank) {
    RankComparison one = compare_rank(model, real, rank);
    result.statements += one.statements;
    result.events += one.events;
    if (one.difference && (!result.difference || order(*one.difference) < order(*result.difference)))
      result.difference = std::move(one.difference);
    if (!one.inconclusive.empty() && result.text.empty())
      result.text = fmt::format("rank {}: {}", rank, one.inconclusive);
  }
  const auto died = [](const RankTrace& rank) {
    return rank.stop && rank.stop->kind == TraceStop::Kind::kDied;
  };
  if (result.difference && result.difference->what == "hang" && std::ranges::any_of(real.by_rank, died)) {
    result.difference.reset();  // it waits, or does not, for one that died
  }
  if (result.difference) {
    result.outcome = Comparison::Outcome::kDiffers;
  } else if (!result.text.empty()) {
    result.outcome = Comparison::Outcome::kInconclusive;
  }
  return result;
}

}  // namespace zero3::sim
