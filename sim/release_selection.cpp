#include "sim/release_selection.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/bad_input.h"

namespace zero3::sim {
namespace {

constexpr const char* kForm = "for example 0.15.2, '0.6.0 - 0.15.2', '>= 0.15.3', or all";

class Parser {
 public:
  Parser(std::string_view text, const ReleasesRefused& refuse) : text_(text), refuse_(refuse) {}

  std::vector<Release> parse() {
    do {
      skip_spaces();
      read_part();
      skip_spaces();
    } while (take(","));
    if (position_ < text_.size()) fail(position_, fmt::format("unexpected '{}'", text_.substr(position_)));
    std::ranges::sort(chosen_);
    chosen_.erase(std::unique(chosen_.begin(), chosen_.end()), chosen_.end());
    return std::move(chosen_);
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& message, const std::string& advice = kForm) const {
    refuse_(at, message, advice);
    std::abort();  // it has thrown
  }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }

  bool take(std::string_view word) {
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  void read_part() {
    const auto known = known_releases();
    const size_t start = position_;
    if (take("all")) return add(known.front(), known.back(), start);
    if (take(">=")) return add(read_release(), known.back(), start);
    if (take("<=")) return add(known.front(), read_release(), start);
    const Release first = read_release();
    skip_spaces();
    if (take("..") || take("-")) return add(first, read_release(), start);
    add(first, first, start);
  }

  Release read_release() {
    skip_spaces();
    const size_t start = position_;
    position_ = std::min(text_.find_first_of(" ,", position_), text_.size());
    // "0.6.0-0.15.2" without spaces, but "0.5.11-dev" is one release.
    const std::string_view word = text_.substr(start, position_ - start);
    for (const std::string_view mark : {std::string_view(".."), std::string_view("-")}) {
      const size_t found = word.find(mark);
      if (found == std::string_view::npos || Release::parse(word)) continue;
      const size_t dev = word.find("-dev");
      position_ = start + (dev == found ? dev + 4 : found);
      break;
    }
    const std::string_view text = text_.substr(start, position_ - start);
    const auto release = Release::parse(text);
    if (!release && text.empty()) fail(start, "a release is missing");
    if (!release)
      fail(start, fmt::format("'{}' is not a release", text), "a release has three numbers, as 0.15.2");
    if (!is_known(*release)) fail(start, fmt::format("unknown release {}", release->text()), near(*release));
    return *release;
  }

  std::string near(const Release& release) const {
    const auto known = known_releases();
    const auto next = std::ranges::lower_bound(known, release);
    if (next == known.begin()) return fmt::format("the first release with ZeRO-3 is {}", next->text());
    if (next == known.end()) return fmt::format("the newest known release is {}", known.back().text());
    return fmt::format("the known releases around it are {} and {}", (next - 1)->text(), next->text());
  }

  void add(const Release& first, const Release& last, size_t at) {
    const auto known = known_releases();
    const auto begin = std::ranges::find(known, first);
    const auto end = std::ranges::find(known, last);
    if (end < begin) fail(at, fmt::format("the range {} - {} is empty", first.text(), last.text()));
    chosen_.insert(chosen_.end(), begin, end + 1);
  }

  std::string_view text_;
  const ReleasesRefused& refuse_;
  size_t position_ = 0;
  std::vector<Release> chosen_;
};

}  // namespace

std::vector<Release> parse_releases(std::string_view text, const std::string& source) {
  return parse_releases(text, [&](size_t offset, const std::string& message, const std::string& advice) {
    throw BadInput(source, std::string(text), Place{1, static_cast<int>(offset) + 1}, message, advice);
  });
}

std::vector<Release> parse_releases(std::string_view text, const ReleasesRefused& refuse) {
  return Parser(text, refuse).parse();
}

std::string fold(const std::vector<Release>& releases) {
  const auto known = known_releases();
  std::string text;
  for (size_t i = 0; i < releases.size();) {
    auto place = std::ranges::lower_bound(known, releases[i]);
    size_t last = i;
    while (last + 1 < releases.size() && place + 1 != known.end() && *(place + 1) == releases[last + 1]) {
      ++place;
      ++last;
    }
    text += text.empty() ? "" : ", ";
    text +=
        last == i ? releases[i].text() : fmt::format("{} - {}", releases[i].text(), releases[last].text());
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::string first_release_with(const std::function<bool(const Release&)>& has) {
  const auto known = known_releases();
  const auto found = std::ranges::find_if(known, has);
  return found == known.end() ? "" : found->text();
}

}  // namespace zero3::sim
