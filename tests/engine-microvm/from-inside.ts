/** Tests of tests/isolation and tests/network that do not apply to machines, by file and the beginning of their name. */
const LEFT_OUT: readonly (readonly [file: string, name: RegExp, reason: string])[] = []

export function whyNotFromInside(file: string, name: string): string | undefined {
  return LEFT_OUT.find((entry) => entry[0] === file && entry[1].test(name))?.[2]
}

/** What runs where nothing is asked for: one test or two of every way out. */
const CHOSEN: Readonly<Record<string, RegExp>> = {
  'isolation/files.test.ts': /finds no file of the host|the files API follows links inside only/,
  'isolation/network.test.ts': /cannot reach > (a service on|an abstract unix socket)/,
  'isolation/processes.test.ts': /sees the processes of its own|by its pid/,
  'network/break-out.test.ts':
    /answer to the host itself|private addresses > (10\.9\.8\.7|169\.254\.169\.254|fd00:77::7)|its loopback .* 127\.0\.0\.1|its address 11\.0\.0\.2/,
  'network/connections.test.ts': /an idle connection > stored/,
}

export function isChosen(file: string, name: string): boolean {
  return CHOSEN[file]?.test(name) ?? false
}
