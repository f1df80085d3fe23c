import { Option } from 'commander'
import type { CreateOptions } from 'dormouse'
import type { Call } from './call.ts'
import { UsageError } from './cli-error.ts'
import { findSnapshot } from './find-snapshot.ts'
import { collectValues, pairsFlag } from './flags.ts'
import { type NetworkFlags, networkOptions } from './network-flags.ts'
import { omitUndefined } from './omit-undefined.ts'
import { type PolicyFlags, policyOptions, toPolicy } from './policy-flags.ts'

export type Isolation = NonNullable<CreateOptions['isolation']>
const ISOLATIONS: readonly Isolation[] = ['process', 'microvm']

/** What a new sandbox is like: for `create` and `run --new`. */
export interface CreateFlags extends NetworkFlags, PolicyFlags {
  readonly template?: string
  readonly isolation?: Isolation
  readonly snapshot?: string
  readonly env?: Record<string, string>
  readonly metadata?: Record<string, string>
  readonly volume?: readonly string[]
  readonly secret?: readonly string[]
}

export function isolationOption(what: string): Option {
  return new Option('--isolation <kind>', what).choices(ISOLATIONS)
}

export function createOptions(): Option[] {
  return [
    new Option('--template <name>', 'the template to start from'),
    isolationOption('share the kernel of the host, or be a virtual machine'),
    new Option('--snapshot <snapshot>', 'start from this snapshot: its id, name, or SANDBOX/NAME'),
    new Option('-e, --env <name=value>', 'an environment variable for everything inside').argParser(
      pairsFlag('--env'),
    ),
    new Option('--metadata <key=value>', 'a label').argParser(pairsFlag('--metadata')),
    new Option('-v, --volume <volume:path[:ro]>', 'mount a volume').argParser(collectValues),
    new Option('--secret <name>', 'let the sandbox use a secret').argParser(collectValues),
    new Option('--network <mode>', 'allow the public internet, or nothing').choices(['public', 'none']),
    new Option(
      '--allow <target>',
      'allow only this, any number of times: example.com, *.example.com:443, 203.0.113.0/24',
    ).argParser(collectValues),
    new Option('--deny <range>', 'close this part of the public internet, any number of times').argParser(
      collectValues,
    ),
    ...policyOptions(),
  ]
}

/** The fields of the API. Asks the server for the id of a snapshot. */
export async function toCreateOptions(call: Call, flags: CreateFlags): Promise<Omit<CreateOptions, 'name'>> {
  const { template, isolation, snapshot, env, metadata } = flags
  if (snapshot !== undefined && template !== undefined)
    throw new UsageError('--snapshot cannot be combined with --template')
  return {
    ...toPolicy(flags),
    ...omitUndefined({
      template,
      isolation,
      snapshot: snapshot && (await findSnapshot(call, snapshot)).id,
      env,
      metadata,
      volumes: flags.volume?.map(parseMount),
      network: networkOptions(flags),
      secrets: flags.secret && [...flags.secret],
    }),
  }
}

/** Parses volume:path or volume:path:ro. */
export function parseMount(text: string): { volume: string; path: string; readOnly: boolean } {
  const { volume, path, mode } =
    /^(?<volume>[^:]+):(?<path>\/[^:]*)(?::(?<mode>ro|rw))?$/.exec(text)?.groups ?? {}
  if (volume === undefined || path === undefined)
    throw new UsageError(
      `--volume has an invalid value "${text}"`,
      'Use -v VOLUME:/PATH or -v VOLUME:/PATH:ro.',
    )
  return { volume, path, readOnly: mode === 'ro' }
}
