import { Sandbox } from 'dormouse'
import { useState } from 'preact/hooks'
import { client } from '../client.ts'
import { Link, navigate } from '../router.tsx'
import { mayRun } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { duration } from '../words.ts'
import { NewSandbox } from './new-sandbox.tsx'

interface Step {
  readonly title: string
  readonly code: { readonly python: string; readonly typescript: string }
  readonly act: (sandbox: Sandbox | undefined) => Promise<{ sandbox: Sandbox; saw: string }>
}

const STEPS: readonly Step[] = [
  {
    title: 'Make a sandbox',
    code: {
      python: 'from dormouse import Sandbox\n\nsandbox = Sandbox.create()',
      typescript: "import { Sandbox } from 'dormouse'\n\nconst sandbox = await Sandbox.create()",
    },
    act: async () => {
      const sandbox = await Sandbox.create({}, { client })
      return { sandbox, saw: sandbox.id }
    },
  },
  {
    title: 'Keep something in memory',
    code: {
      python: 'sandbox.run_code("nuts = list(range(1_000_000))")',
      typescript: "await sandbox.runCode('nuts = list(range(1_000_000))')",
    },
    act: async (sandbox) => {
      await sandbox?.runCode('nuts = list(range(1_000_000))')
      return { sandbox: sandbox as Sandbox, saw: 'a list of a million numbers' }
    },
  },
  {
    title: 'Put it to sleep',
    code: { python: 'sandbox.idle()', typescript: 'await sandbox.idle()' },
    act: async (sandbox) => {
      await sandbox?.idle({ tier: 'stored' })
      return { sandbox: sandbox as Sandbox, saw: 'on disk only: it uses no memory and no CPU' }
    },
  },
  {
    title: 'Use it: it wakes, and remembers',
    code: {
      python: 'print(sandbox.run_code("len(nuts)").text)',
      typescript: "console.log((await sandbox.runCode('len(nuts)')).text)",
    },
    act: async (sandbox) => {
      const result = await sandbox?.runCode('len(nuts)')
      return { sandbox: sandbox as Sandbox, saw: `len(nuts) is ${result?.text ?? '?'}` }
    },
  },
]

/** Shows what this is for: a sandbox is made, sleeps and wakes, in one click. */
export function FirstVisit() {
  const [done, setDone] = useState<readonly { ms: number; saw: string }[]>([])
  const [isBusy, setIsBusy] = useState(false)
  const [language, setLanguage] = useState<'python' | 'typescript'>('python')
  const [made, setMade] = useState<string>()
  const play = async () => {
    setIsBusy(true)
    setDone([])
    let sandbox: Sandbox | undefined
    await attempt('The show', async () => {
      for (const { act } of STEPS) {
        const began = performance.now()
        const outcome = await act(sandbox)
        sandbox = outcome.sandbox
        const ms = performance.now() - began
        setDone((before) => [...before, { ms, saw: outcome.saw }])
      }
    })
    setMade(sandbox?.id)
    setIsBusy(false)
  }
  return (
    <section class="first">
      <h1>Sandboxes that sleep, and never forget.</h1>
      <p>There is no sandbox yet. See one being made, put to sleep and woken:</p>
      <div class="buttons">
        <button type="button" class="main" onClick={() => void play()} disabled={isBusy || !mayRun()}>
          {isBusy ? 'Watch…' : done.length > 0 ? 'Again' : 'Show me'}
        </button>
        {made !== undefined && <Link to={`/sandboxes/${made}`}>Open it</Link>}
        {mayRun() && <NewSandbox onMade={(id) => navigate(`/sandboxes/${id}`)} />}
        <fieldset class="looks">
          <legend class="hidden">Language</legend>
          {(['python', 'typescript'] as const).map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={language === name}
              onClick={() => setLanguage(name)}
            >
              {name === 'python' ? 'Python' : 'TypeScript'}
            </button>
          ))}
        </fieldset>
      </div>
      <Show {...{ done, isBusy, language }} />
    </section>
  )
}

interface ShowProps {
  readonly done: readonly { readonly ms: number; readonly saw: string }[]
  readonly isBusy: boolean
  readonly language: 'python' | 'typescript'
}

function Show({ done, isBusy, language }: ShowProps) {
  return (
    <ol class="show">
      {STEPS.map(({ title, code }, index) => {
        const outcome = done[index]
        const look = outcome !== undefined ? 'done' : isBusy && index === done.length ? 'now' : 'later'
        return (
          <li key={title} class={look}>
            <div>
              <h2>{title}</h2>
              {outcome !== undefined && (
                <p class="outcome">
                  <strong>{duration(outcome.ms)}</strong> {outcome.saw}
                </p>
              )}
            </div>
            <pre>{code[language]}</pre>
          </li>
        )
      })}
    </ol>
  )
}
