#pragma once

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/system/system.h"
#include "mesh/objects/objects.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/system_options.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {

using Numbers = std::vector<std::uint32_t>;

inline Numbers numbers(std::size_t count, std::uint32_t first = 0) {
  Numbers list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

/// Returns the content of an object, copied.
inline Numbers content(const Mapped<Numbers>& view) {
  return {view.span().begin(), view.span().end()};
}

struct Limits {
  std::uint64_t memory = std::uint64_t{1} << 30;
  std::filesystem::path folder = {};
};

/// A process, or what stands for one: a system that listens, with an object store.
struct Place {
  Place(const std::string& name, const std::string& host, const Limits& limits)
      : system(options(name, host, limits)),
        address(system.listen({"127.0.0.1", 0})),
        objects(system) {}

  static actors::SystemOptions options(const std::string& name, const std::string& host,
                                       const Limits& limits) {
    actors::SystemOptions options = test::system_options(name);
    options.log = Log::standard_error(LogLevel::kWarning);
    options.memory_host = host;
    options.object_memory = limits.memory;
    options.object_folder = limits.folder;
    return options;
  }
  Mapped<Numbers> get(const ObjectRef<Numbers>& ref) { return objects.get(ref).get(); }
  StoreStatus status() { return objects.status().get(); }

  actors::System system;
  const actors::Address address;
  Objects objects;
};

/// Actor that reads objects and puts some.
class Reader final {
 public:
  using Arguments = std::tuple<>;
  explicit Reader(actors::Context& context) : objects_(context) {}

  /// Returns the sum of the numbers of an object.
  actors::task<std::uint64_t> sum(ObjectRef<Numbers> ref) {
    auto asked = objects_.get(ref);
    const auto view = co_await asked;
    co_return std::accumulate(view.span().begin(), view.span().end(), std::uint64_t{0});
  }
  /// Reads an object and keeps its view until release().
  actors::task<void> hold(ObjectRef<Numbers> ref) {
    auto asked = objects_.get(ref);
    held_ = co_await asked;
  }
  void release() { held_.reset(); }
  actors::task<ObjectRef<Numbers>> put(std::uint64_t count, std::uint32_t copies) {
    auto putting = objects_.put(numbers(count), {.copies = copies});
    owned_.push_back(co_await putting);
    co_return owned_.back().ref();
  }
  actors::task<StoreStatus> status() {
    auto asked = objects_.status();
    co_return co_await asked;
  }

  static constexpr auto endpoints = actors::interface<"test.object_reader", 1>(
      actors::on<&Reader::sum>("sum"), actors::on<&Reader::hold>("hold"),
      actors::on<&Reader::release>("release"), actors::on<&Reader::put>("put"),
      actors::on<&Reader::status>("status"));

 private:
  Objects objects_;
  std::optional<Mapped<Numbers>> held_;
  std::vector<OwnedObject<Numbers>> owned_;
};

}  // namespace weft::mesh
