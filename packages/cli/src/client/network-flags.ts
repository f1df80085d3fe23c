import type { NetworkMode, NetworkOptions } from 'dormouse'
import { UsageError } from './cli-error.ts'

export interface NetworkFlags {
  readonly network?: NetworkMode
  readonly allow?: readonly string[]
}

/** `--allow` implies the mode `allow`. Undefined when no flag was given. */
export function networkOptions({ network, allow }: NetworkFlags): NetworkOptions | undefined {
  if (allow === undefined) return network === undefined ? undefined : { mode: network }
  if (network !== undefined && network !== 'allow')
    throw new UsageError(
      `--allow and the network "${network}" contradict each other`,
      '--allow already denies everything else; leave out the other flag.',
    )
  return { mode: 'allow', allow: [...allow] }
}
