// Elementary functions that compilers can vectorize (libm's calls stay scalar).
#pragma once

#include <bit>
#include <cstdint>

namespace trainer::nn {

/// The polynomial in x with these coefficients, the highest first.
template <class... Rest>
inline __attribute__((always_inline)) float polynomial(float x, float highest, Rest... rest) {
  ((highest = highest * x + rest), ...);
  return highest;
}

/// e^x within 2 ulp for x in [-87, 88]; x is clamped to this range (e^-87 is about 1e-38). NaN gives NaN.
inline __attribute__((always_inline)) float fast_exp(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding and subtracting it rounds to an integer
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float n = (x * 1.44269504F + kRound) - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  float p = polynomial(r, 1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F,
                       5.0000001201e-1F);
  p = p * r * r + r + 1.0F;
  const float exponent = n == n ? n : 0.0F;  // converting NaN to an integer is undefined
  return p * std::bit_cast<float>((static_cast<int32_t>(exponent) + 127) << 23);
}

/// tanh(x), from fast_exp; absolute error below 1e-7.
inline __attribute__((always_inline)) float fast_tanh(float x) {
  const float e = fast_exp(2.0F * (x < 0 ? x : -x));  // in (0, 1]
  const float t = (1.0F - e) / (1.0F + e);
  return x < 0 ? -t : t;
}

/// The integral of the standard normal distribution up to x, within 2e-7; small values within 1e-5 of themselves. The
/// polynomials are those of Cephes' erff and erfcf.
inline __attribute__((always_inline)) float normal_cdf(float x) {
  const float u = x * 0.7071067812F, size = u < 0 ? -u : u, z = u * u;
  const float near =
      polynomial(z, 7.853861353153693E-5F, -8.010193625184903E-4F, 5.188327685732524E-3F, -2.685381193529856E-2F,
                 1.128358514861418E-1F, -3.761262582423300E-1F, 1.128379165726710E+0F);
  const float q = 1.0F / (size < 1.0F ? 1.0F : size), y = q * q;
  const float middle = polynomial(y, 2.326819970068386E-2F, -1.387039388740657E-1F, 3.687424674597105E-1F,
                                  -5.824733027278666E-1F, 6.210004621745983E-1F, -4.944515323274145E-1F,
                                  3.404879937665872E-1F, -2.741127028184656E-1F, 5.638259427386472E-1F);
  const float far =
      polynomial(y, -1.047766399936249E+1F, 1.297719955372516E+1F, -7.495518717768503E+0F, 2.921019019210786E+0F,
                 -1.015265279202700E+0F, 4.218463358204948E-1F, -2.820767439740514E-1F, 5.641895067754075E-1F);
  const float beyond = 0.5F * fast_exp(-z) * q * (size < 2.0F ? middle : far);  // half of erfc(|u|)
  return size < 1.0F ? 0.5F + 0.5F * u * near : u < 0 ? beyond : 1.0F - beyond;
}

/// tanh(x) within 3 ulp, also near 0, where fast_tanh is exact to 1e-7 only. The polynomial is that of Cephes' tanhf.
inline __attribute__((always_inline)) float precise_tanh(float x) {
  const float z = x * x, e = fast_exp(2.0F * (x < 0 ? -x : x));
  const float p =
      polynomial(z, -5.70498872745e-3F, 2.06390887954e-2F, -5.37397155531e-2F, 1.33314422036e-1F, -3.33332819422e-1F);
  const float near = p * z * x + x, t = 1.0F - 2.0F / (e + 1.0F), far = x < 0 ? -t : t;
  return z < 0.390625F ? near : far;  // |x| < 0.625
}

}  // namespace trainer::nn
