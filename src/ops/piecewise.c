/* Defines activations that are given piece by piece: leaky_relu, elu, relu6, hardsigmoid,
 * hardswish, and their gradients, which read the input. Where pieces meet, a gradient is that of
 * PyTorch. */
#include "ops/elementwise.h"

WEFT_ELEMENT(leaky_relu, 1, "slope", 0.01, NULL, 0, a > 0 ? a : a * p)
WEFT_ELEMENT_ROW(leaky_relu, 1, "x where x > 0, else 'slope' x (Maas, Hannun and Ng 2013)",
                 weft_gradient_by_input, .attrs = WEFT_ATTRS("slope"))
WEFT_ELEMENT(leaky_relu_grad, 2, "slope", 0.01, NULL, 0, a > 0 ? b : a == a ? b * p : a)
WEFT_ELEMENT_ROW(leaky_relu_grad, 2, "dy where x > 0, else 'slope' dy; from (x, dy)", NULL,
                 .attrs = WEFT_ATTRS("slope"))

WEFT_ELEMENT(elu, 1, "alpha", 1, NULL, 0, a > 0 ? a : p * (el_exp(a) - real(1)))
WEFT_ELEMENT_ROW(elu, 1, "x where x > 0, else 'alpha' (exp(x) - 1) (Clevert et al. 2016)",
                 weft_gradient_by_input, .attrs = WEFT_ATTRS("alpha"))
WEFT_ELEMENT(elu_grad, 2, "alpha", 1, NULL, 0, a > 0 ? b : b * p * el_exp(a))
WEFT_ELEMENT_ROW(elu_grad, 2, "dy where x > 0, else 'alpha' dy exp(x); from (x, dy)", NULL,
                 .attrs = WEFT_ATTRS("alpha"))

WEFT_ELEMENT_OPERATOR(relu6, 1, "x, but at least 0 and at most 6", weft_gradient_by_input,
                      a<0 ? real(0) : a> 6 ? real(6) : a)
WEFT_ELEMENT_OPERATOR(relu6_grad, 2, "dy where 0 < x < 6, else 0; from (x, dy)", NULL,
                      a > 0 && a < 6 ? b
                      : a == a       ? real(0)
                                     : a)

WEFT_ELEMENT_OPERATOR(hardsigmoid, 1, "x / 6 + 1/2, but at least 0 and at most 1",
                      weft_gradient_by_input,
                      a<-3 ? real(0) : a> 3 ? real(1) : a / real(6) + real(0.5))
WEFT_ELEMENT_OPERATOR(hardsigmoid_grad, 2, "dy / 6 where -3 < x < 3, else 0; from (x, dy)", NULL,
                      a > -3 && a < 3 ? b / real(6)
                      : a == a        ? real(0)
                                      : a)

WEFT_ELEMENT_OPERATOR(hardswish, 1, "x times hardsigmoid(x) (Howard et al. 2019)",
                      weft_gradient_by_input,
                      a<-3 ? real(0) : a> 3 ? a : a *(a + real(3)) / real(6))
WEFT_ELEMENT_OPERATOR(hardswish_grad, 2, "dy times the slope of hardswish; from (x, dy)", NULL,
                      a < -3   ? real(0)
                      : a <= 3 ? b * (a / real(3) + real(0.5))
                      : a == a ? b
                               : a)
