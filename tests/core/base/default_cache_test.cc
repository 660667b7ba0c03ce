#include "core/base/default_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace weft {
namespace {

/// Environment variable that a test changes. The destructor restores it.
class Variable final {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* value = std::getenv(name); value != nullptr) before_ = value;
  }
  ~Variable() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
    else ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(DefaultCache, IsTheCacheOfTheDesktopElseTheHomeFolders) {
  const Variable cache("XDG_CACHE_HOME"), home("HOME");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  ::setenv("HOME", "/home/ann", 1);
  EXPECT_EQ(default_cache(), "/cache/weft");
  ::setenv("XDG_CACHE_HOME", "", 1);
  EXPECT_EQ(default_cache(), "/home/ann/.cache/weft");
}

}  // namespace
}  // namespace weft
