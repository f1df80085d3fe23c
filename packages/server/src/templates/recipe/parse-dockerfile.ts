import { DormouseError } from '@dormouse/contracts'
import { DockerfileParser, type Instruction as Parsed } from 'dockerfile-ast'
import type { Base, CacheMount, Command, Instruction, Recipe, Stage } from './recipe.ts'
import { substitute } from './substitute.ts'

export interface DockerfileOptions {
  readonly buildArgs?: Readonly<Record<string, string>> | undefined
  /** The stage to build; the last one by default. */
  readonly target?: string | undefined
}

/** They describe an image for others and change nothing in it. */
const IGNORED = new Set(['LABEL', 'EXPOSE', 'MAINTAINER', 'STOPSIGNAL', 'VOLUME'])
/** `FROM template:python` builds on a template. */
const TEMPLATE = /^template:(?<name>.+)$/

/** Reads a Dockerfile. Throws `invalid_argument` with the line that cannot be understood. */
export function parseDockerfile(text: string, options: DockerfileOptions): Recipe {
  const globals: Record<string, string> = {}
  const stages: (Stage & { instructions: Instruction[] })[] = []
  for (const parsed of DockerfileParser.parse(text).getInstructions()) {
    const keyword = parsed.getKeyword()
    const stage = stages.at(-1)
    if (keyword === 'FROM') stages.push(readFrom(parsed, { stages, globals }))
    else if (keyword === 'ARG' && stage === undefined)
      for (const { name, value } of readPairs(parsed))
        globals[name] = options.buildArgs?.[name] ?? substitute(value ?? '', globals)
    else if (stage === undefined) throw wrong(parsed, 'comes before the first FROM')
    else stage.instructions.push(...readInstruction(parsed, { stages, globals, options }))
  }
  const last = chooseTarget(stages, options.target)
  return { stages: stages.slice(0, last + 1) }
}

function chooseTarget(stages: readonly Stage[], target: string | undefined): number {
  if (stages.length === 0) throw invalid('The Dockerfile has no FROM.')
  if (target === undefined) return stages.length - 1
  const found = stages.findIndex(({ name }, at) => name === target.toLowerCase() || String(at) === target)
  if (found !== -1) return found
  throw new DormouseError('invalid_argument', `The Dockerfile has no stage "${target}".`, {
    details: { field: 'target', value: target },
  })
}

interface Around {
  readonly stages: readonly Stage[]
  readonly globals: Readonly<Record<string, string>>
}

function readFrom(parsed: Parsed, around: Around): Stage & { instructions: Instruction[] } {
  const [image, as, name] = words(parsed)
  if (image === undefined || (as !== undefined && (as.toUpperCase() !== 'AS' || name === undefined)))
    throw wrong(parsed, 'must be FROM IMAGE [AS NAME]')
  const base = readBase(substitute(image, around.globals), around.stages)
  return { base, instructions: [], ...(name !== undefined && { name: name.toLowerCase() }) }
}

function readBase(reference: string, stages: readonly Stage[]): Base {
  const stage = stages.findIndex(({ name }) => name === reference.toLowerCase())
  if (stage !== -1) return { type: 'stage', stage }
  const template = TEMPLATE.exec(reference)?.groups?.['name']
  return template === undefined ? { type: 'image', image: reference } : { type: 'template', template }
}

type Reader = (parsed: Parsed, around: Around & { options: DockerfileOptions }) => Instruction[]

const READERS: Readonly<Record<string, Reader>> = {
  RUN: (parsed) => [
    { type: 'run', shown: shown(parsed), command: readCommand(parsed), caches: readMounts(parsed) },
  ],
  COPY: (parsed, { stages }) => [readCopy(parsed, stages, false)],
  ADD: (parsed, { stages }) => [readCopy(parsed, stages, true)],
  ENV: (parsed) => [
    {
      type: 'env',
      shown: shown(parsed),
      values: Object.fromEntries(readPairs(parsed).map(({ name, value }) => [name, value ?? ''])),
    },
  ],
  ARG: (parsed, { globals, options }) =>
    readPairs(parsed).map(({ name, value }) => ({
      type: 'arg',
      shown: shown(parsed),
      name,
      value: options.buildArgs?.[name] ?? value ?? globals[name],
    })),
  WORKDIR: (parsed) => [{ type: 'workdir', shown: shown(parsed), path: unquote(content(parsed)) }],
  USER: (parsed) => [{ type: 'user', shown: shown(parsed), user: content(parsed) }],
  ENTRYPOINT: (parsed) => [{ type: 'entrypoint', shown: shown(parsed), command: readCommand(parsed) }],
  CMD: (parsed) => [{ type: 'cmd', shown: shown(parsed), command: readCommand(parsed) }],
  SHELL: (parsed) => {
    const args = readList(content(parsed))
    if (args === undefined || args.length === 0)
      throw wrong(parsed, 'must be a list like ["/bin/bash", "-c"]')
    return [{ type: 'shell', shown: shown(parsed), args }]
  },
  HEALTHCHECK: (parsed) => [{ type: 'healthcheck', shown: shown(parsed), command: readHealthcheck(parsed) }],
}

function readInstruction(parsed: Parsed, around: Around & { options: DockerfileOptions }): Instruction[] {
  const keyword = parsed.getKeyword()
  if (IGNORED.has(keyword)) return []
  const read = READERS[keyword]
  if (read === undefined) throw wrong(parsed, 'is not supported')
  return read(parsed, around)
}

const HEREDOC = /^<<-?\s*(?<quote>["']?)(?<end>\w+)\k<quote>\n(?<body>[\s\S]*?)\n?\k<end>$/

function readCommand(parsed: Parsed): Command {
  const text = content(parsed)
  const args = readList(text)
  if (args !== undefined) return { args }
  const heredoc = HEREDOC.exec(text)?.groups
  if (text.startsWith('<<') && heredoc === undefined)
    throw wrong(parsed, 'has a heredoc that is not supported')
  if (text === '') throw wrong(parsed, 'has no command')
  return { script: heredoc?.['body'] ?? text }
}

function readHealthcheck(parsed: Parsed): Command | undefined {
  const text = content(parsed)
  if (text.toUpperCase() === 'NONE') return undefined
  const command = /^CMD\s+(?<rest>[\s\S]+)$/i.exec(text)?.groups?.['rest']
  if (command === undefined) throw wrong(parsed, 'must be NONE or CMD COMMAND')
  const args = readList(command)
  return args === undefined ? { script: command } : { args }
}

function readMounts(parsed: Parsed): CacheMount[] {
  return flags(parsed).flatMap(([name, value]) => {
    if (name !== 'mount') throw wrong(parsed, `has the option --${name}, which is not supported`)
    const fields = Object.fromEntries(value.split(',').map((part) => splitOnce(part, '=')))
    if (fields['type'] !== 'cache')
      throw wrong(parsed, `has a mount of the type ${fields['type'] ?? 'bind'}; only type=cache is supported`)
    const target = fields['target'] ?? fields['dst'] ?? fields['destination']
    if (target === undefined || !target.startsWith('/'))
      throw wrong(parsed, 'has a mount without an absolute target')
    return [{ target, id: fields['id'] ?? target }]
  })
}

function readCopy(parsed: Parsed, stages: readonly Stage[], isAdd: boolean): Instruction {
  const given = new Map(flags(parsed))
  for (const name of given.keys())
    if (!['from', 'chown', 'chmod', 'link'].includes(name))
      throw wrong(parsed, `has the option --${name}, which is not supported`)
  const text = content(parsed)
  if (text.startsWith('<<')) throw wrong(parsed, 'has a heredoc, which is not supported here')
  const paths = readList(text) ?? words(parsed).map(unquote)
  const to = paths.at(-1)
  if (paths.length < 2 || to === undefined) throw wrong(parsed, 'needs a source and a destination')
  const sources = paths.slice(0, -1)
  if (sources.some((source) => /^(https?:|git@|git:)/.test(source)))
    throw wrong(parsed, 'cannot download; use RUN with curl or git instead')
  const from = given.get('from')
  return {
    type: 'copy',
    shown: shown(parsed),
    sources,
    to,
    unpacks: isAdd,
    ...(from !== undefined && { from: readStage(from, stages) }),
    ...(given.has('chown') && { chown: given.get('chown') ?? '' }),
    ...(given.has('chmod') && { chmod: given.get('chmod') ?? '' }),
  }
}

function readStage(reference: string, stages: readonly Stage[]): Base {
  // The last stage is the one that the instruction belongs to.
  if (/^\d+$/.test(reference) && Number(reference) < stages.length - 1)
    return { type: 'stage', stage: Number(reference) }
  return readBase(reference, stages.slice(0, -1))
}

function readPairs(parsed: Parsed): { name: string; value: string | undefined }[] {
  const properties = (parsed as Parsed & { getProperties?: () => Property[] }).getProperties?.() ?? []
  if (properties.length === 0) throw wrong(parsed, 'needs NAME=VALUE')
  return properties.map((property) => ({ name: property.getName(), value: property.getValue() ?? undefined }))
}

interface Property {
  getName(): string
  getValue(): string | null
}

function flags(parsed: Parsed): [name: string, value: string][] {
  const withFlags = parsed as Parsed & { getFlags?: () => { getName(): string; getValue(): string | null }[] }
  return (withFlags.getFlags?.() ?? []).map((flag) => [flag.getName().toLowerCase(), flag.getValue() ?? ''])
}

/** A JSON list of strings, or undefined: then the text is for a shell. */
function readList(text: string): string[] | undefined {
  if (!text.startsWith('[')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : undefined
  } catch {
    return undefined
  }
}

function words(parsed: Parsed): string[] {
  return parsed.getArguments().map((argument) => argument.getValue())
}

/** Without line continuations and comments. */
function content(parsed: Parsed): string {
  return (parsed.getArgumentsContent() ?? '').trim()
}

function unquote(text: string): string {
  return /^(["'])(.*)\1$/s.exec(text)?.[2] ?? text
}

function splitOnce(text: string, at: string): [string, string] {
  const index = text.indexOf(at)
  return index === -1 ? [text.trim(), ''] : [text.slice(0, index).trim(), text.slice(index + 1)]
}

const SHOWN_MAX_CHARACTERS = 120

function shown(parsed: Parsed): string {
  const options = flags(parsed).map(([name, value]) => `--${name}=${value}`)
  const line = [parsed.getKeyword(), ...options, content(parsed)].join(' ').replaceAll(/\s+/g, ' ')
  return line.length <= SHOWN_MAX_CHARACTERS ? line : `${line.slice(0, SHOWN_MAX_CHARACTERS - 1)}…`
}

function wrong(parsed: Parsed, why: string): DormouseError {
  return invalid(`Line ${parsed.getRange().start.line + 1} of the Dockerfile: ${parsed.getKeyword()} ${why}.`)
}

function invalid(message: string): DormouseError {
  return new DormouseError('invalid_argument', message, { details: { field: 'dockerfile' } })
}
