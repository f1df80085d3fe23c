/** The languages of contexts and runs. Which of them a sandbox has depends on its template. */
export const LANGUAGES = ['python', 'bash', 'javascript', 'typescript', 'r'] as const

export type Language = (typeof LANGUAGES)[number]

export const DEFAULT_CONTEXT = 'default'

/** Languages of one kernel share a context, so code in one sees the variables of the other. */
const CONTEXT_OF: Readonly<Record<Language, string>> = {
  python: DEFAULT_CONTEXT,
  // A run of bash keeps nothing, unless its context is a bash.
  bash: DEFAULT_CONTEXT,
  javascript: 'javascript',
  typescript: 'javascript',
  r: 'r',
}

/** The context of runs that name none. */
export function defaultContextOf(language: Language | undefined): string {
  return language === undefined ? DEFAULT_CONTEXT : CONTEXT_OF[language]
}
