// A DeepSpeed release: its number, and the list of those that zero3sim models.
//
// Ordering is by number. The untagged master between v0.5.10 and v0.6.0 (source installs that called themselves
// 0.5.11-dev, see eras B0) is listed as 0.5.11.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zero3 {

struct Release {
  int major = 0;
  int minor = 0;
  int patch = 0;

  auto operator<=>(const Release&) const = default;

  // "0.15.2"; the untagged master is "0.5.11-dev".
  std::string text() const;

  // "0.15.2" or "v0.15.2"; nothing for any other spelling. Says nothing of whether the release exists.
  static std::optional<Release> parse(std::string_view text);
};

// Every modelled release, oldest first: v0.3.12 (the first with ZeRO-3) to v0.19.8.
std::span<const Release> known_releases();

bool is_known(const Release& release);

// The release itself if it is modelled, else the newest modelled one before it; the oldest for one before all.
Release nearest_known(const Release& release);

}  // namespace zero3
