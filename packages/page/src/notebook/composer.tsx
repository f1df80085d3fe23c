import type { Context, Sandbox } from 'dormouse'
import { useRef, useState } from 'preact/hooks'
import { Glyph } from '../parts/icons.tsx'
import { attempt } from '../state/toasts.ts'
import { CodeEditor, type EditorHandle } from './code-editor.tsx'

interface ComposerProps {
  readonly sandbox: Sandbox
  readonly isAsleep: boolean
  readonly contexts: readonly string[]
}

type Language = Context['language']

const NAMES: Readonly<Record<Language, true>> = {
  ...{ python: true, bash: true, javascript: true, typescript: true, r: true },
}
const LANGUAGES = Object.keys(NAMES) as Language[]

/** Code to run next. Several runs in one context wait in a queue. */
export function Composer({ sandbox, isAsleep, contexts }: ComposerProps) {
  const editor = useRef<EditorHandle>(null)
  const [language, setLanguage] = useState<Language>('python')
  const [context, setContext] = useState('default')
  const run = () => {
    const code = editor.current?.text() ?? ''
    if (code.trim() === '') return
    editor.current?.clear()
    void attempt('Run', async () => {
      // The notebook shows the run from the journal; this only starts it.
      for await (const _event of sandbox.runCodeStream(code, { language, context, input: true }));
    })
  }
  const complete = (code: string) =>
    isAsleep ? Promise.resolve(undefined) : sandbox.contexts.complete(context, code).catch(() => undefined)
  return (
    <div class="composer">
      <CodeEditor ref={editor} language={language} onRun={run} complete={complete} label="Code to run" />
      <footer>
        <label>
          <span class="hidden">Language</span>
          <select value={language} onChange={(event) => setLanguage(event.currentTarget.value as Language)}>
            {LANGUAGES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <ContextPicker {...{ contexts, context }} onPick={(name) => setContext(name || 'default')} />
        {isAsleep && <span class="note">Running wakes this sandbox.</span>}
        <span class="spacer" />
        <kbd>Shift Enter</kbd>
        <button type="button" class="main" onClick={run}>
          <Glyph name="play" /> Run
        </button>
      </footer>
    </div>
  )
}

interface ContextPickerProps {
  readonly contexts: readonly string[]
  readonly context: string
  readonly onPick: (name: string) => void
}

const NEW = '+ new'

function ContextPicker({ contexts, context, onPick }: ContextPickerProps) {
  const [isNew, setIsNew] = useState(false)
  if (isNew) {
    return (
      <input
        class="context-name"
        aria-label="Name of the new context"
        placeholder="name"
        autofocus
        onKeyDown={(event) => {
          if (event.key === 'Escape') setIsNew(false)
          if (event.key !== 'Enter') return
          setIsNew(false)
          onPick(event.currentTarget.value.trim())
        }}
      />
    )
  }
  return (
    <label>
      <span class="hidden">Context</span>
      <select
        value={context}
        onChange={(event) => {
          const name = event.currentTarget.value
          if (name === NEW) setIsNew(true)
          else onPick(name)
        }}
      >
        {[...new Set([...contexts, context]), NEW].map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  )
}
