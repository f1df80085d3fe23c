import type { NetworkMode, NetworkOptions } from 'dormouse'
import { UsageError } from './cli-error.ts'

export interface NetworkFlags {
  readonly network?: NetworkMode
  readonly allow?: readonly string[]
  readonly deny?: readonly string[]
}

/** `--allow` implies the mode `allow`, and `--deny` the mode `public`. Undefined when no flag was given. */
export function networkOptions({ network, allow, deny }: NetworkFlags): NetworkOptions | undefined {
  if (deny !== undefined) {
    if (network !== undefined && network !== 'public')
      throw new UsageError(
        `--deny and the network "${network}" contradict each other`,
        '--deny closes parts of the public internet; leave out the other flag.',
      )
    return { mode: 'public', deny: [...deny], ...(allow && { allow: [...allow] }) }
  }
  if (allow === undefined) return network === undefined ? undefined : { mode: network }
  if (network !== undefined && network !== 'allow')
    throw new UsageError(
      `--allow and the network "${network}" contradict each other`,
      '--allow already denies everything else; leave out the other flag.',
    )
  return { mode: 'allow', allow: [...allow] }
}
