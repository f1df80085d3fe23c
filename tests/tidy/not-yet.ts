/**
 * What breaks a rule today: the beginnings of its complaints, by rule. Entries are removed when their files are mended.
 * Nothing may be added.
 */
export const NOT_YET: Readonly<Record<string, readonly string[]>> = {
  'functions have at most 60 lines': [
    'packages/server/src/api/routes/',
    'packages/server/src/api/testing/',
    'packages/server/src/composition/open-server.ts',
    'packages/server/src/composition/run-server.ts',
    'packages/server/src/metrics/server-metrics.ts',
  ],
}
