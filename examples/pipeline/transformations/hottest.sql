CREATE MATERIALIZED VIEW hottest
AS SELECT sensor, max(celsius) AS celsius, count(*) AS readings FROM readings GROUP BY sensor
