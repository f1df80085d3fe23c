/**
 * What `test` runs, one after the other. With JSON, vitest's report is the answer, and what the others say are notes.
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
