export type Tier = 'frozen' | 'stored'
/** Of a run. Without one it is Python. */
export type Language = 'javascript' | 'typescript' | 'r'

export interface Ran {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  readonly text?: string | undefined
  readonly error?: { readonly name: string; readonly message: string } | undefined
}

export interface State {
  readonly state: string
  readonly tier?: string | undefined
}

/** One way in. What is refused throws an error with a `code`. */
export interface Surface extends AsyncDisposable {
  create(template?: string): Promise<State & { readonly id: string }>
  run(id: string, code: string, language?: Language): Promise<Ran>
  /** Calls `see` with output as it comes, and resolves when the run is over. */
  stream(id: string, code: string, see: (output: string) => void, language?: Language): Promise<void>
  standby(id: string, tier: Tier): Promise<State>
  resume(id: string): Promise<State>
  fork(id: string, count: number): Promise<readonly string[]>
  write(id: string, path: string, content: string): Promise<void>
  read(id: string, path: string): Promise<string>
  /** Names, in any order. */
  list(id: string, path: string): Promise<readonly string[]>
  delete(id: string): Promise<void>
}

export class Refused extends Error {
  readonly code: string

  constructor(code: string) {
    super(code)
    this.code = code
  }
}
