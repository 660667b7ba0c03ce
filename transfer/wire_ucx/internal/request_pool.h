#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace weft::transfer {

/// Requests of one kind, which UCX refers to by address while it works on them. Reused. Owner's
/// thread only.
template <typename Request>
class RequestPool final {
 public:
  /// Returns an unused request. Its content is that of its last use.
  Request& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Request>());
      free_.push_back(all_.back().get());
    }
    Request* request = free_.back();
    free_.pop_back();
    return *request;
  }
  void give_back(Request& request) { free_.push_back(&request); }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
};

}  // namespace weft::transfer
