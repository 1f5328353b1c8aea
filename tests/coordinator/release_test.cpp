#include "coordinator/release.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace zero3 {
namespace {

TEST(Release, IsReadWithAndWithoutTheLetter) {
  EXPECT_EQ(Release::parse("0.15.2"), (Release{0, 15, 2}));
  EXPECT_EQ(Release::parse("v0.15.2"), (Release{0, 15, 2}));
}

TEST(Release, AnyOtherSpellingIsNone) {
  for (const char* text :
       {"", "v", "0.15", "0.15.2.1", "0.15.2 ", " 0.15.2", "0.15.x", "0..2", "0.15.", "-1.0.0", "+0.15.2",
        "vv0.15.2", "0.15.99999999999999999999", "latest", "0.5.11"}) {
    EXPECT_EQ(Release::parse(text), std::nullopt) << '"' << text << '"';
  }
}

// eras.md, "pseudo-era B0": source installs between v0.5.10 and v0.6.0.
TEST(Release, UntaggedMasterSaysSo) {
  const auto master = Release::parse("0.5.11-dev");
  ASSERT_TRUE(master);
  EXPECT_EQ(master->text(), "0.5.11-dev");
  EXPECT_TRUE(is_known(*master));
  EXPECT_LT((Release{0, 5, 10}), *master);
  EXPECT_LT(*master, (Release{0, 6, 0}));
}

TEST(Release, OrderIsByNumberNotByText) {
  EXPECT_LT((Release{0, 9, 5}), (Release{0, 10, 0}));
  EXPECT_LT((Release{0, 15, 2}), (Release{0, 15, 3}));
}

// The first tag with ZeRO-3 is v0.3.12 (#834); the newest package modelled is v0.19.8 (eras.md, 13).
TEST(Release, ListGoesFromTheFirstZero3ToTheNewest) {
  const auto releases = known_releases();
  EXPECT_EQ(releases.front(), (Release{0, 3, 12}));
  EXPECT_EQ(releases.back(), (Release{0, 19, 8}));
  EXPECT_TRUE(std::ranges::is_sorted(releases));
  for (const Release& one : releases) EXPECT_EQ(Release::parse(one.text()), one);
}

TEST(Release, TagsThatNeverExistedAreUnknown) {
  for (const Release missing : {Release{0, 3, 11}, Release{0, 5, 12}, Release{0, 6, 8}, Release{0, 15, 5},
                                Release{0, 19, 9}, Release{1, 0, 0}}) {
    EXPECT_FALSE(is_known(missing)) << missing.text();
  }
  for (const Release tagged : {Release{0, 4, 5}, Release{0, 5, 0}, Release{0, 6, 2}, Release{0, 17, 2}}) {
    EXPECT_TRUE(is_known(tagged)) << tagged.text();
  }
}

}  // namespace
}  // namespace zero3
