import type { NetworkMode, NetworkOptions } from 'dormouse'
import { UsageProblem } from './problem.ts'

export interface NetworkFlags {
  readonly network?: NetworkMode
  readonly allow?: readonly string[]
}

/** `--allow` says that nothing else is. Undefined: nothing was said. */
export function networkOptions({ network, allow }: NetworkFlags): NetworkOptions | undefined {
  if (allow === undefined) return network === undefined ? undefined : { mode: network }
  if (network !== undefined && network !== 'allow')
    throw new UsageProblem(
      `--allow and the network "${network}" contradict each other`,
      'With --allow only what it names can be reached; leave the other away.',
    )
  return { mode: 'allow', allow: [...allow] }
}
