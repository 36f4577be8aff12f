//! Estimators with intervals: quantiles, rates, histograms, speed levels, periodicity.
