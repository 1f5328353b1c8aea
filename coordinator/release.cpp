#include "coordinator/release.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace zero3 {
namespace {

constexpr Release kUntaggedMaster{0, 5, 11};

// The tags of DeepSpeed's repository up to v0.19.5 and the packages after it: minor version, first and last patch.
struct Series {
  int minor;
  int first_patch;
  int last_patch;
};
constexpr std::array kSeries = {
    Series{3, 12, 16}, Series{4, 0, 5},  Series{5, 0, 11}, Series{6, 0, 7},  Series{7, 0, 7},
    Series{8, 0, 3},   Series{9, 0, 5},  Series{10, 0, 3}, Series{11, 0, 2}, Series{12, 0, 6},
    Series{13, 0, 5},  Series{14, 0, 5}, Series{15, 0, 4}, Series{16, 0, 9}, Series{17, 0, 6},
    Series{18, 0, 9},  Series{19, 0, 8},
};

std::vector<Release> list_releases() {
  std::vector<Release> releases;
  for (const Series& series : kSeries) {
    for (int patch = series.first_patch; patch <= series.last_patch; ++patch) {
      releases.push_back(Release{0, series.minor, patch});
    }
  }
  return releases;
}

}  // namespace

std::string Release::text() const {
  std::string text = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  return *this == kUntaggedMaster ? text + "-dev" : text;
}

std::optional<Release> Release::parse(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  if (text == kUntaggedMaster.text()) return kUntaggedMaster;
  std::array<int, 3> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) {
      if (!text.starts_with('.')) return std::nullopt;
      text.remove_prefix(1);
    }
    if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  if (!text.empty()) return std::nullopt;
  const Release release{numbers[0], numbers[1], numbers[2]};
  return release == kUntaggedMaster ? std::nullopt : std::optional(release);
}

std::span<const Release> known_releases() {
  static const std::vector<Release> kReleases = list_releases();
  return kReleases;
}

bool is_known(const Release& release) { return std::ranges::binary_search(known_releases(), release); }

Release nearest_known(const Release& release) {
  const std::span<const Release> known = known_releases();
  const auto after = std::ranges::upper_bound(known, release);
  return after == known.begin() ? known.front() : *(after - 1);
}

}  // namespace zero3
