/** Tests of the contract that this engine cannot pass, by the beginning of their name. */
const REASONS: readonly (readonly [beginning: string, reason: string])[] = [
  [
    'a burrow that was killed meanwhile is reported as lost',
    'a killed machine loses what its kernel had not written to its disk, as in a power cut',
  ],
  ['timers: a snapshot knows the earliest', 'the engine has no timers: QEMU stops all clocks of a machine'],
]

export function whyLeftOut(name: string): string | undefined {
  return REASONS.find(([beginning]) => name.startsWith(beginning))?.[1]
}

/** What runs without DORMOUSE_MICROVM_CONTRACT=all. */
export const CHOSEN_TESTS: ReadonlySet<string> = new Set([])
