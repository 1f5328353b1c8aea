// What the races command prints: how the threads can end, how often, and a shortest interleaving of each end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/leaf_race/leaf_race.h"

namespace zero3::sim {

// Of releases that race alike, oldest first.
struct RaceReport {
  std::string name;  // of the scenario or program
  std::vector<Release> releases;
  RacingLeaf leaf;
  Interleavings interleavings;  // of a told order: that one alone
  bool told = false;            // one order, given by the user
  std::string reproduce;        // the command line

  // Whether an interleaving raises or leaves harm behind. What one rank gathers twice harms nobody else.
  bool fails() const;
};

struct RaceReports {
  std::vector<RaceReport> reports;
  std::vector<Release> without_leaf_modules;
};

std::string text_report(const RaceReports& reports);
// One object for one report, else a list; docs/leaf-races.md.
std::string json_report(const RaceReports& reports);

// What an end without an exception means, for people; "" if nothing is to be said.
std::string meaning(const RaceEnd& end);

}  // namespace zero3::sim
