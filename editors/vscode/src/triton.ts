// Which files concern us.

const MENTION = /\btriton\b/;

/** Whether a Python file may hold kernels, or use them: it names Triton somewhere. */
export function mentionsTriton(text: string): boolean {
  return MENTION.test(text);
}
