import { autocompletion, type CompletionContext, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { javascript } from '@codemirror/lang-javascript'
import { python } from '@codemirror/lang-python'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { Compartment, EditorState, type Extension } from '@codemirror/state'
import { drawSelection, EditorView, keymap } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { Completions } from 'dormouse'

export interface EditorOptions {
  readonly text: string
  readonly language: string
  readonly label: string
  readonly onRun: () => void
  readonly onSave: () => void
  readonly complete: (code: string) => Promise<Completions | undefined>
}

export interface OpenedEditor {
  text(): string
  replace(text: string): void
  setLanguage(language: string): void
  focus(): void
  close(): void
}

/** The colours are those of `style`, so that both themes apply without a change here. */
const COLOURS = HighlightStyle.define([
  { tag: tags.comment, class: 't-comment' },
  { tag: [tags.string, tags.special(tags.string)], class: 't-string' },
  { tag: tags.number, class: 't-number' },
  { tag: [tags.keyword, tags.bool, tags.null], class: 't-keyword' },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))],
    class: 't-call',
  },
])

export function openEditor(parent: HTMLElement, options: EditorOptions): OpenedEditor {
  const language = new Compartment()
  const run = (): boolean => {
    options.onRun()
    return true
  }
  const save = (): boolean => {
    options.onSave()
    return true
  }
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        keymap.of([
          { key: 'Shift-Enter', run },
          { key: 'Mod-Enter', run },
          { key: 'Mod-s', run: save, preventDefault: true },
        ]),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        autocompletion({ override: [(context) => completed(context, options.complete)] }),
        syntaxHighlighting(COLOURS),
        keymap.of([...completionKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
        EditorView.contentAttributes.of({ 'aria-label': options.label }),
        EditorView.lineWrapping,
        language.of(languageOf(options.language)),
      ],
    }),
  })
  return {
    text: () => view.state.doc.toString(),
    replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    setLanguage: (name) => view.dispatch({ effects: language.reconfigure(languageOf(name)) }),
    focus: () => view.focus(),
    close: () => view.destroy(),
  }
}

function languageOf(name: string): Extension {
  if (name === 'python') return python()
  return name === 'javascript' || name === 'typescript'
    ? javascript({ typescript: name === 'typescript' })
    : []
}

/** Names that exist in the sandbox now. */
async function completed(context: CompletionContext, complete: EditorOptions['complete']) {
  if (!context.explicit && context.matchBefore(/[\w.]+/) === null) return null
  const code = context.state.sliceDoc(0, context.pos)
  const found = await complete(code)
  if (found === undefined || found.matches.length === 0) return null
  const word = context.matchBefore(/\w*/)
  return { from: word?.from ?? context.pos, options: found.matches.map((label) => ({ label: tail(label) })) }
}

/** The server completes `df.he` to `df.head`; the editor replaces the part after the dot. */
function tail(match: string): string {
  return match.slice(match.lastIndexOf('.') + 1)
}
