// What a layer may do to keep less between F, B and W. The numbers are the same, bit for bit.
#pragma once

namespace braid::layers {

struct Savings {
  bool recomputes_core =
      false;  ///< an attention computes softmax(q k^T) v again in B instead of keeping it from F
  /// B also adds those weight gradients for whose sake a layer would keep the most from B to W for the time
  /// they take: B of microbatches must be in ascending order, too, and main gradients must not be used before
  /// the step's last W.
  bool early_gradients = false;

  friend bool operator==(const Savings&, const Savings&) = default;
};

}  // namespace braid::layers
