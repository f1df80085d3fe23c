/**
 * The programs that `test` runs in order. With JSON, stdout has only the report of vitest; the others print to stderr.
 * @param {readonly string[]} args for vitest
 * @param {{ isJson: boolean }} how
 * @returns {{ argv: [string, ...string[]], isNote: boolean }[]}
 */
export function testPrograms(args, { isJson }) {
  return [
    { argv: ['biome', 'check', '--error-on-warnings', '.'], isNote: isJson },
    { argv: ['tsc', '-p', 'setup'], isNote: isJson },
    { argv: ['vitest', 'run', ...(isJson ? ['--reporter=json'] : []), ...args], isNote: false },
  ]
}
