use super::Validator;

fn check(validator: Validator, real: &[&str], unreal: &[&str]) {
    for text in real {
        assert!(validator.accepts(text), "{validator:?} {text}");
    }
    for text in unreal {
        assert!(!validator.accepts(text), "{validator:?} {text}");
    }
}

#[test]
fn numbers_are_checked() {
    check(
        Validator::Card,
        &["4111 1111 1111 1111", "378282246310005"],
        &["4111-2222-3333-4445", "1234567890123456", "0000000000000000", "1"],
    );
    check(
        Validator::Iban,
        &["GB29 NWBK 6016 1331 9268 19", "de89370400440532013000"],
        &["AB12CDEFGHIJ1234", "GB30NWBK60161331926819"],
    );
    check(
        Validator::Ssn,
        &["123-45-6789", "536 22 8714"],
        &["000-12-3456", "912-34-5678", "666-12-3456", "123-00-4567", "12", "123456789012"],
    );
    check(Validator::Cpf, &["123.456.789-09"], &["123.456.789-10", "111.111.111-11"]);
    check(Validator::Dni, &["12345678Z"], &["12345678A"]);
    check(Validator::IdNumber, &["560 12 34"], &["1111111", "2024-05-06", "12.5"]);
    check(Validator::ChinaId, &["11010519491231002X"], &["110105194912310021"]);
}

#[test]
fn addresses_that_nobody_owns_are_left_alone() {
    check(
        Validator::Ipv4,
        &["8.8.8.8"],
        &[
            "127.0.0.1", "10.4.7.12", "0.0.0.0", "192.168.1.1", "203.0.113.9", "255.255.255.0",
            "1.2.3.400",
        ],
    );
    check(Validator::Ipv6, &["2001:4860:4860::8888"], &["::1", "fe80::1", "2001:db8::1"]);
    check(
        Validator::Email,
        &["jane.roe@acme-corp.io", "jane[at]acme[dot]com", "s.k&#64;outlook.com"],
        &["user@example.com", "logo@2x.png", "git@github.com"],
    );
}

#[test]
fn secrets_differ_from_names() {
    check(
        Validator::Secret,
        &["AbCdEfGhIjKlMnOpQrStUvWx", "16C7e42F292c6912E7710c838347"],
        &[
            "see_the_documentation_for_details",
            "user_account_identifier_column",
            "process.env.GITHUB_TOKEN2",
        ],
    );
    check(
        Validator::Password,
        &["hunter2-Blue!", "Tr0ub4dor&3"],
        &["reset", "<password>", "********", "required", "${DB_PASSWORD}"],
    );
    check(
        Validator::SeedPhrase,
        &["legal winner thank year wave sausage worth useful legal winner thank yellow"],
        &[
            "never share your words with anyone because they could steal all your money",
            "legal winner thank",
        ],
    );
    check(
        Validator::BirthDate,
        &["1985-03-15", "March 15, 1985", "15.03.1985", "3/15/85", "19850315"],
        &["1985-13-45", "99/99/9999"],
    );
}

#[test]
fn what_is_drawn_is_told_from_names() {
    check(
        Validator::Drawn,
        &[
            "k7m2x0q9d4wz1s8v5bt3yh6n",
            "Ve8RkQ2tLm0ZsX4bWp7Jd1Hy",
            "9b1f0c7ea4d25836be01c9d7f3a4e852",
        ],
        &[
            "layer_three_block_twelve_conv2d",
            "AutoScalingGroupV2Provider1",
            "0f8fad5b-d9cb-469f-a165-70867728950e",
            "abcdefghij1234567890abcd",
            "getUserByPrimaryKey2Cached",
            "short1A",
        ],
    );
}
