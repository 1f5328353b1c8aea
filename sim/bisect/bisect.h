// Which release made a program bad, which pull request, which flag of its behaviour.
//
// Between two neighbouring releases the rows of the behaviour table are the suspects; each is undone on the newer
// release and applied to the older one. Where no single row decides, all rows of one pull request are tried together.
#pragma once

#include <string>
#include <vector>

#include "coordinator/behaviour.h"
#include "coordinator/release.h"
#include "sim/outcome/outcome.h"
#include "sim/outcome/tested_program.h"

namespace zero3::sim {

// Rows of one pull request; usually a single one.
struct Suspect {
  std::vector<Change> changes = {};
  std::vector<Change> undone = {};  // the rows that held for the same flags before
  // How the newer release ends with them undone, the older one with them applied. None: such a mix cannot run.
  std::optional<Outcome> without = {};
  std::optional<Outcome> with = {};
  bool undoing_restores = false;  // `without` ends as the older release does
  bool applying_brings = false;   // `with` ends as the newer one does

  bool decides() const { return undoing_restores || applying_brings; }
};

// Two neighbouring releases, of those that can run the program, that do not end alike.
struct ChangePoint {
  Release before = {};
  Release after = {};
  Outcome was = {};
  Outcome is = {};
  size_t rows = 0;  // of the behaviour table between them
  std::vector<Suspect> deciding =
      {};  // those that decide both ways first; empty: no flag and no pull request alone does

  // Their sources, each once: "#6557 (1a2b3c4d5)".
  std::vector<std::string> sources() const;
};

struct Bisection {
  Release good = {};
  Release bad = {};
  Outcome good_outcome = {};
  Outcome bad_outcome = {};
  std::vector<ChangePoint> points = {};  // in the order met on the way from good to bad; never empty
  size_t first = 0;                      // the point from which on, coming from good, it ends as on bad
  std::vector<Release> lacking = {};     // between them, without something that the program uses

  // The release on the bad side of a point.
  const Release& first_bad() const { return good < bad ? points[first].after : points[first].before; }
};

// Throws BadInput if both are the same release, end alike, or lack something that the program uses.
Bisection bisect(const TestedProgram& program, const Release& good, const Release& bad);

std::string text_report(const Bisection& bisection, const TestedProgram& program);
std::string json_report(const Bisection& bisection, const TestedProgram& program);  // docs/bisect.md

}  // namespace zero3::sim
