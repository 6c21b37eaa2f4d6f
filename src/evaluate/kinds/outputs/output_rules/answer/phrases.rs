//! Sentences that refuse, promise, apologise or are only polite, in the most spoken languages.
//!
//! In goes one sentence, out comes which of these it is. A sentence is one of them only if it is
//! short: what is explained at length says something.

use std::sync::LazyLock;

use regex::Regex;

use super::AnswerFault;

/// Longest sentence that only refuses, promises or apologises, characters.
const SENTENCE_CHARS_MAX: usize = 160;

/// What a sentence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentenceKind {
    /// Greets, agrees or thanks.
    Courtesy,
    /// Refuses, promises or apologises.
    Fault(AnswerFault),
    /// Says something.
    Other,
}

const REFUSAL: &str = r"(?x)
 \bi(?:'m|\ am)?\ (?:am\ )?(?:sorry,?\ (?:but\ )?(?:i(?:'m|\ am)\ )?)?(?:unable|not\ able|not\ allowed)\ to\ (?:assist|help|answer|do|provide|access|process|complete|comply|fulfil|tell|find|share)
|\bi\ (?:can'?t|cannot|can\ not|won'?t|will\ not|could\ not|couldn'?t)\ (?:help|assist|answer|do\ (?:that|this|it)|provide|access|comply|tell\ you|write\ that|complete|fulfil|process|share|find|browse|discuss)
|\bi\ (?:do\ not|don'?t)\ (?:have\ (?:access|real-?time|live|enough\ information|that\ information|the\ ability|permission)|know\b)
|\bas\ an?\ (?:ai|large\ language|language)\b.*\b(?:cannot|can'?t|don'?t|do\ not|unable)
|\bi'?d\ rather\ not\b|\b(?:that|this)\ is\ (?:outside|beyond)\ (?:of\ )?my\b|\bno\ idea\b
|\b(?:no\ puedo|no\ me\ es\ posible)\ (?:ayudar|responder|acceder|hacer|proporcionar|realizar)|\bno\ tengo\ acceso\b|\bno\ lo\ sé\b
|\bje\ ne\ (?:peux|suis)\ pas\b|\bje\ n'ai\ pas\ accès\b|\bje\ ne\ sais\ pas\b
|\b(?:dabei\ )?kann\ ich\b.*\bnicht\ (?:helfen|beantworten|weiterhelfen)|\bich\ kann\b.*\bnicht\ (?:helfen|beantworten|weiterhelfen|tun|zugreifen)|\bich\ habe\ kein(?:en|e)?\ (?:zugriff|zugang|information)|\bich\ weiß\ es\ nicht\b
|\bnão\ (?:posso|consigo)\ (?:ajudar|responder|acessar|fazer|fornecer)|\bnão\ tenho\ acesso\b|\bnão\ sei\b
|\bnon\ posso\ (?:aiutar|rispondere|fornire|accedere|farlo)|\bnon\ ho\ accesso\b|\bnon\ lo\ so\b
|не\ могу\ (?:с\ этим\ )?(?:помочь|ответить|выполнить|сделать|предоставить)|нет\ доступа\ к|я\ не\ знаю
|(?:无法|不能|没办法)(?:帮助|协助|提供|回答|处理|完成)|没有(?:权限|办法)?(?:访问|权限)|我不知道|無法(?:協助|提供|回答)
|お(?:手伝い|答え)(?:は|が)?(?:でき|いたしかね)|アクセス(?:は|が)?(?:でき|する\ ?ことが)|対応(?:は|が)?でき(?:ません|かね)|わかりません
|(?:도와\ ?드릴|답변(?:해\ ?드릴|할)?|제공(?:해\ ?드릴|할)?)\ ?수\ ?(?:가\ )?없|접근할\ 수\ 없|모르겠습니다
|मदद\ नहीं\ कर\ सक|पहुँच\ नहीं|नहीं\ जानता|जानकारी\ नहीं
|لا\ (?:أستطيع|يمكنني)\ (?:المساعدة|مساعدتك|الإجابة)|ليس\ لدي\ (?:إمكانية|صلاحية)|لا\ أعرف
|সাহায্য\ করতে\ পার(?:ছি|ব|ি)?\ ?না|আমি\ জানি\ না
|tidak\ (?:bisa|dapat)\ (?:membantu|menjawab|mengakses)|tidak\ memiliki\ akses|saya\ tidak\ tahu
|yardımcı\ olamam|yardım\ edemem|erişimim\ yok|bilmiyorum
|nie\ mogę\ (?:pomóc|odpowiedzieć)|nie\ mam\ dostępu|ik\ kan\ (?:je|u)?\ ?(?:hier)?\ ?niet\ (?:mee\ )?(?:helpen|bij)";

const PROMISE: &str = r"(?x)
 \b(?:i'll|i\ will|i\ am\ going\ to|i'm\ going\ to|let\ me|allow\ me\ to|i\ will\ now|i'll\ now)\ (?:now\ |go\ |just\ |quickly\ |start\ |begin\ ){0,2}(?:check|look|find|search|get|do|work|start|begin|working|fetch|review|analy[sz]e|investigate|compare|cancel|prepare|write|create|send|pull|gather|see|take\ care|run|book|process|handle|update|summari[sz]e)
|\b(?:one|a|just\ a)\ (?:moment|second|sec|minute)\b|\b(?:please\ wait|hold\ on|stand\ by|bear\ with\ me)\b|\b(?:searching|looking|checking|working|processing|fetching|loading|analy[sz]ing)\b.*(?:\.\.\.|…|now)|\bi'm\ (?:looking|checking|working|searching)\b|\bget\ back\ to\ you\b
|\bdéjame\ (?:comprobar|revisar|ver|buscar|consultar)|\bun\ momento\b|\bvoy\ a\ (?:preparar|revisar|comprobar|buscar|hacer|escribir|consultar|verificar)|\blo\ reviso\b
|\bje\ (?:vérifie|regarde|m'en\ occupe|reviens\ vers|cherche|consulte)|\bje\ vais\ (?:m'en|vérifier|regarder|préparer|rédiger|chercher|faire)|\bun\ instant\b
|\beinen\ (?:moment|augenblick)\b|\bich\ (?:sehe|schaue|prüfe|kümmere|melde)\b|\bich\ werde\b.*\b(?:erstellen|prüfen|nachsehen|schreiben|vorbereiten|kümmern|heraussuchen)
|\b(?:vou|irei)\ (?:verificar|preparar|checar|procurar|fazer|escrever|consultar|buscar|olhar)|\bum\ momento\b|\bjá\ vou\b|\bun\ attimo\b|\bcontrollo\ subito\b|\bora\ verifico\b
|(?:одну\ минут|минутку|секунду|подождите)|сейчас\ (?:проверю|посмотрю|подготовлю|сделаю|найду|напишу|уточню)|я\ (?:проверю|посмотрю|подготовлю)
|请稍等|稍等|我(?:来|去|先|马上|这就|现在)?(?:查|看|帮您查|帮你查|开始|处理|核实)|马上(?:开始|为您|处理|去)|請稍候
|少々お待ち|お待ちください|(?:確認|調査|調べ|作成|検索|対応)(?:いた|し)?(?:します|してみます|してまいります)|これから.*(?:します|いたします)
|잠시만|기다려\ ?주|확인해\ ?(?:보|드리)|지금\ .*(?:하겠습니다|작성하겠)|찾아보겠
|(?:एक\ क्षण|रुकिए|प्रतीक्षा|थोड़ा\ इंतज़ार)|मैं\ (?:देखता|देखती|जाँच|पता)
|لحظة|انتظر|سأ(?:تحقق|بحث|قوم|راجع)|একটু\ অপেক্ষা|দেখছি
|(?:mohon|harap)\ tunggu|saya\ akan\ (?:memeriksa|mengecek|mencari|membuat|menyiapkan)|sebentar
|bir\ (?:dakika|saniye)|kontrol\ ed(?:eyim|iyorum)|(?:chwileczkę|moment,?\ sprawdzam|już\ sprawdzam)|een\ moment";

const APOLOGY: &str = r"(?x)
 \b(?:i\ )?apologi[sz]e\b|\b(?:sorry|my\ apologies|apologies)\b|\byou'?re\ (?:absolutely\ )?right\b
|\b(?:disculp|perdon|lo\ siento|lamento|lamentamos)|\b(?:toutes\ mes\ excuses|je\ suis\ désolé|désolé|excusez|mes\ excuses)
|\b(?:ich\ bitte\ um\ (?:entschuldigung|verzeihung)|entschuldig|es\ tut\ mir\ leid|tut\ mir\ leid)|\b(?:peço\ desculpas|desculp|lamento|sinto\ muito)
|\b(?:mi\ (?:dispiace|scuso)|scusa)|(?:приношу|приносим)\ (?:свои\ )?извинени|извините|простите|прошу\ прощения
|抱歉|对不起|對不起|不好意思|申し訳|すみません|ごめん|죄송|미안|माफ़|क्षमा|खेद|آسف|عذرا|عذراً|نعتذر|দুঃখিত|ক্ষমা
|\b(?:mohon\ )?maaf\b|\b(?:üzgünüm|özür)|\bprzepraszam|\b(?:sorry|excuses)\b";

const COURTESY: &str = r"(?x)^\W*(?:
 (?:sure|okay|ok|of\ course|certainly|absolutely|understood|got\ it|great(?:\ question)?|good\ question|thanks?(?:\ you)?(?:\ for\ [a-z\ ]{1,40})?|hello|hi|hey|alright|no\ problem|happy\ to\ help|unfortunately)
|(?:claro|por\ supuesto|vale|gracias|hola|de\ acuerdo|bien\ sûr|d'accord|merci|bonjour|natürlich|gerne|klar|danke|hallo|okay|certo|grazie|ciao|com\ certeza|obrigad[oa]|olá|ok|конечно|хорошо|спасибо|понятно|здравствуйте)
|(?:好的|当然|没问题|谢谢|您好|你好|承知(?:し|いたし)ました|かしこまりました|はい|わかりました|네|알겠습니다|감사합니다|ज़रूर|ठीक\ है|धन्यवाद|हाँ|حسنا|حسناً|بالتأكيد|شكرا|অবশ্যই|ঠিক\ আছে|ধন্যবাদ|tentu|baik|terima\ kasih|tabii|tamam|oczywiście|natuurlijk)
)\W*$";

const RESTATES: &str = r"(?x)\b(?:you\ (?:asked|want|would\ like|are\ asking|want\ to\ know|wish)|your\ question|the\ question\ is|so\ you)\b
|\b(?:vous\ demandez|vous\ voulez|votre\ question|sie\ (?:möchten|fragen|wollen)|ihre\ frage|usted\ (?:pregunta|quiere)|preguntas|tu\ pregunta|você\ (?:perguntou|quer)|sua\ pergunta|hai\ chiesto|vuoi\ sapere)\b
|вы\ (?:спрашиваете|спросили|хотите)|ваш\ вопрос|您(?:问|想知道|的问题)|你(?:问|想知道|的问题)|ご質問|お尋ね|질문";

/// Case does not matter; the patterns are tested.
fn compiled(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("(?i){pattern}")).ok()
}

static PATTERNS: LazyLock<[Option<Regex>; 5]> =
    LazyLock::new(|| [REFUSAL, PROMISE, APOLOGY, COURTESY, RESTATES].map(compiled));

fn has(index: usize, text: &str) -> bool {
    PATTERNS[index].as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// What a sentence does.
pub(super) fn kind(sentence: &str) -> SentenceKind {
    let sentence = sentence.replace('’', "'");
    if has(3, &sentence) {
        return SentenceKind::Courtesy;
    }
    if sentence.chars().nth(SENTENCE_CHARS_MAX).is_some() {
        return SentenceKind::Other;
    }
    let faults = [AnswerFault::Refusal, AnswerFault::Promise, AnswerFault::Apology];
    let found = faults.into_iter().enumerate().find(|(index, _)| has(*index, &sentence));
    match found {
        // What follows "because", "so" or "but you can" is told.
        Some(_) if tells_more(&sentence) => SentenceKind::Other,
        Some((_, fault)) => SentenceKind::Fault(fault),
        None => SentenceKind::Other,
    }
}

fn tells_more(sentence: &str) -> bool {
    static MORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        compiled(
            r"\b(?:because|but you can|however|instead|, so (?:it|you)|pero puede|mais vous pouvez|aber sie können|mas você pode)\b|но вы можете|但(?:您|你)可以",
        )
    });
    MORE.as_ref().is_some_and(|more| more.is_match(sentence))
}

/// Whether an answer says what was asked.
pub(super) fn restates(text: &str) -> bool {
    has(4, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_compile() {
        assert!(PATTERNS.iter().all(Option::is_some));
        assert!(!tells_more("no"));
    }

    #[test]
    fn sentences_are_told_apart() {
        let fault = SentenceKind::Fault;
        let check = |text: &str, wanted| assert_eq!(kind(text), wanted, "{text}");
        check("Of course!", SentenceKind::Courtesy);
        check("I’m unable to assist with this request.", fault(AnswerFault::Refusal));
        check("Je vérifie cela tout de suite.", fault(AnswerFault::Promise));
        check("ご迷惑をおかけして申し訳ございません。", fault(AnswerFault::Apology));
        check("The bridge opened in 1937.", SentenceKind::Other);
        check("I can't, because the policy asks for two people.", SentenceKind::Other);
    }
}
